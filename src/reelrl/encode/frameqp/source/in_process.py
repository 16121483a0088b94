"""The encoder in this process, as it asks: before each coded frame, with what constant quality would do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.encode.codecs.aom.two_pass import HIGHEST_QINDEX, LOWEST_QINDEX, TwoPassSession
from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameRequest, PlannedFrame
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.aom.gops import FrameToCode
    from reelrl.encode.codecs.aom.steered_encode import CodedFrame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

_NEARBY = 16  # frames


class FrameQpSource:
    """One pass over a clip. `deltas` are the answers so far, `qindexes` what they came to.

    `gop_limits` holds what was asked of the GOPs: None where an answer left them alone.
    """

    def __init__(
        self,
        clip: Clip,
        settings: EncoderSettings,
        statistics: bytes,
        episode: FrameQpEpisode,
        *,
        keep_delta_q: bool,
        probe_cpu_s: float = 0.0,
    ) -> None:
        self.clip, self.settings, self.episode = clip, settings, episode
        self.keep_delta_q, self.probe_cpu_s = keep_delta_q, probe_cpu_s
        self.deltas: list[float] = []
        self.qindexes: list[int] = []
        self.gop_limits: list[int | None] = []
        self.own: list[PlannedFrame] = []
        self._planned = {(each.frame, each.kind): each for each in episode.plan}
        self._rest_bits = self._budget = sum(each.bits for each in episode.plan)  # headers are no part of it
        self._spent = self._counted = 0
        self._owed: dict[int, float] = {}  # by layer: what rounding took
        self._request: FrameRequest | None = None
        self._session = TwoPassSession(clip, settings, statistics, keep_delta_q=keep_delta_q)

    @property
    def packets(self) -> list[Packet]:
        """The stream so far, in display order."""
        return self._session.packets

    @property
    def coded(self) -> list[CodedFrame]:
        """What earlier answers led to: all of it is known when the next frame is asked about."""
        return self._session.coded

    def request(self) -> FrameRequest | None:
        """The next question; None when the clip is over."""
        if self._request is None:
            coming = self._session.request()
            if coming is None:
                return None
            before = self._rest_bits
            own = self._planned_for(coming)
            self._spent += sum(done.bits for done in self.coded[self._counted :])
            self._counted = len(self.coded)
            bits_left = self._budget - self._spent
            self._request = FrameRequest(coming, own, bits_left, max(before, own.bits))
        return self._request

    def reply(self, delta: float, gop_limit: int | None = None) -> None:
        """Steps of the quantiser index above libaom's own, and how long the next GOP may be."""
        request = self._request
        if request is None:
            raise ConfigError("no frame was asked about; call request() first")
        if not math.isfinite(delta):
            raise InvalidStateError(f"delta = {delta} for frame {request.coming.frame}; deltas are finite")
        layer = request.coming.layer
        wanted = request.own.qindex + delta + self._owed.get(layer, 0.0)
        qindex = min(max(round(wanted), LOWEST_QINDEX), HIGHEST_QINDEX)
        self._owed[layer] = min(max(wanted - qindex, -0.5), 0.5)
        self._session.reply(qindex, gop_limit)
        self._request = None
        self.gop_limits.append(gop_limit)
        self.deltas.append(delta)
        self.qindexes.append(qindex)
        self.own.append(request.own)

    def close(self) -> None:
        """End the encoder, in mid-clip too."""
        self._session.close()

    def _planned_for(self, coming: FrameToCode) -> PlannedFrame:
        """What the plan has for a frame, which is no part of the rest from now on.

        Where probes made GOPs of other lengths, it is coded like the nearest one of its kind, and has the bits of a
        frame nearby that is still to come in the plan: of its own kind if there is one.
        """
        place = (coming.frame, coming.kind)
        if place not in self._planned:
            near = [key for key in self._planned if abs(key[0] - coming.frame) <= _NEARBY]
            near = [key for key in near if key[1] == coming.kind] or near
            if not near:
                return self._like(coming, None)
            place = min(near, key=lambda key: abs(key[0] - coming.frame))
        taken = self._planned.pop(place)
        self._rest_bits -= taken.bits
        return taken if place == (coming.frame, coming.kind) else self._like(coming, taken.bits)

    def _like(self, coming: FrameToCode, bits: float | None) -> PlannedFrame:
        plan = self.episode.plan
        layer = min({each.layer for each in plan}, key=lambda layer: abs(layer - coming.layer))
        same = [each for each in plan if each.kind == coming.kind] or [each for each in plan if each.layer == layer]
        alike = min(same, key=lambda each: abs(each.frame - coming.frame))
        return PlannedFrame(coming.frame, coming.kind, coming.layer, alike.qindex, alike.bits if bits is None else bits)
