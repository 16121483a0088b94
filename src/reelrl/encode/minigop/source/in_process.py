"""The encoder in this process, asking before each mini-GOP.

open_source(clip, settings, kbps=300) ──► request() ─► reply(delta) ─► feedback() ... ──► packets

Random access replays the QPs of a CRF probe with the delta added, picture by picture, while the encoder goes on looking
ahead for itself. Low delay moves the base QP and leaves the layers to the encoder: no probe, no lag, and a delay of one
mini-GOP, whose pictures are looked at before it is coded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.protocols import HIGHEST_QP, LOWEST_QP, MiniGopEpisode, MiniGopFeedback, MiniGopRequest
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.whole_clip import Decision
    from reelrl.encode.minigop.source.plan import ClipPlan, Span

RANDOM_ACCESS = EncoderSettings(preset=8, rate_control="crf", structure="random_access", hierarchical_levels=4)
LOW_DELAY = EncoderSettings(preset=8, rate_control="cqp", structure="low_delay", hierarchical_levels=3)


class InProcessSource:
    """A `MiniGopSource` over an encoder session of its own.

    packets      the stream so far, in display order
    deltas       what was asked for, by mini-GOP
    sent_qps     what was sent with each picture: its QP (random access) or the base QP (low delay)
    probe_cpu_s  what sample encodes and probe took when they were made
    minigops     what was known of each beforehand
    start_qp     QP of the probe, or of low delay's first mini-GOP
    """

    def __init__(
        self, clip: Clip, settings: EncoderSettings, episode: MiniGopEpisode, plan: ClipPlan, sample_cpu_s: float = 0.0
    ) -> None:
        self.clip, self.settings, self.episode = clip, settings, episode
        self.packets: list[Packet] = []
        self.sent_qps: list[int] = []
        self.probe_cpu_s = plan.probe_cpu_s + sample_cpu_s
        self.start_qp = plan.qp
        self.spans = plan.spans
        self.minigops = plan.minigops
        self._plan = plan
        self._frames: Iterator[Frame] = iter(clip)
        self._rounding = Rounding()
        self.deltas: list[float] = []
        self._asked = False
        self._reported = 0  # mini-GOPs whose feedback was given
        self._known_bits = 0
        self._unread: list[MiniGopFeedback] = []
        self._session: EncoderSession | None = EncoderSession(settings)

    def request(self) -> MiniGopRequest | None:
        if self._session is None:
            raise ConfigError("this source is closed; open another for another pass")
        mg = len(self.deltas)
        if mg == len(self._plan.spans):
            return None
        self._learn(mg - self.episode.feedback_lag)
        self._asked = True
        planned = self._plan.minigops[mg]
        return MiniGopRequest(
            mg=mg,
            gop=planned.gop,
            first_frame=planned.first_frame,
            frames=planned.frames,
            base_qp=planned.base_qp,
            layer_qps=planned.layer_qps,
            bits_left=self.episode.budget_bits - self._known_bits,
            frames_left=self.clip.frame_count - planned.first_frame,
            features=planned.features,
        )

    def reply(self, delta: float) -> None:
        if not self._asked or self._session is None:
            raise ConfigError("a delta without a question; call request() first")
        delta = float(delta)
        if not -HIGHEST_QP <= delta <= HIGHEST_QP:
            raise ConfigError(f"delta = {delta}; give QP steps between -{HIGHEST_QP} and {HIGHEST_QP}")
        mg = len(self.deltas)
        self._asked = False
        self.deltas.append(delta)
        planned, layers = self._plan.minigops[mg], self._plan.layers[mg]
        own = planned.layer_qps if self.settings.picture_qp else (planned.base_qp,) * planned.frames
        for qp in self._rounding.realise(own, layers, delta):
            before = self.sent_qps[-1] if self.sent_qps else self.settings.qp
            self._session.send(next(self._frames), **control_of(self.settings, qp, before))
            self.sent_qps.append(qp)
            self._take(self._session.receive())
        if mg + 1 == len(self._plan.spans):
            self._take(self._session.flush())
            self._learn(mg + 1)

    def feedback(self) -> list[MiniGopFeedback]:
        unread, self._unread = self._unread, []
        return unread

    def close(self) -> None:
        session, self._session = self._session, None
        self._frames = iter(())
        if session is not None:
            session.close()

    def _take(self, packets: list[Packet]) -> None:
        for packet in packets:
            packet.recon = None  # a clip's worth of pictures would fill the memory
            self.packets.append(packet)

    def _learn(self, up_to: int) -> None:
        """Make feedback of all mini-GOPs before `up_to`, waiting for what the encoder has not delivered yet."""
        session = self._session
        assert session is not None  # noqa: S101 - both callers checked
        for span in self._plan.spans[self._reported : max(up_to, 0)]:
            # Behind a short mini-GOP the encoder has been sent too little to let this one go for certain: it is
            # reported later, also when it happens to be there, or else decisions would hang on the machine's speed.
            if span.end + frames_held(self.settings) > session.sent and len(self.deltas) < len(self._plan.spans):
                break
            if len(self.packets) < span.end:
                self._take(session.receive(wait_for=span.end - 1))
            feedback = self._feedback_of(span)
            self._known_bits += feedback.bits
            self._unread.append(feedback)
            self._reported += 1

    def _feedback_of(self, span: Span) -> MiniGopFeedback:
        packets = self.packets[span.first : span.end]
        spans, delta = self._plan.spans, self.deltas[span.mg]
        last = span.mg + 1 == len(spans)
        ssim = [packet.ssim[0] for packet in packets if packet.ssim is not None]
        return MiniGopFeedback(
            mg=span.mg,
            qp=clipped(round(self._plan.minigops[span.mg].base_qp + delta)),
            bits=sum(8 * packet.size for packet in packets),
            psnr_y=sum(packet.psnr[0] for packet in packets) / span.frames if self.settings.psnr else math.nan,
            gop_end=last or spans[span.mg + 1].gop != span.gop,
            frames=span.frames,
            delta=delta,
            sse_y=sum(packet.luma_sse_in_8_bits for packet in packets) if self.settings.psnr else 0,
            ssim_y=sum(ssim) / len(ssim) if ssim else None,
        )


class Rounding:
    """Whole QPs whose mean follows the deltas asked for.

    What rounding takes from a picture is given to the next of the same layer, in this mini-GOP or a later one. So each
    layer's mean is right, and with it the bits: half of them lie in the one base picture, which a rounding per
    mini-GOP would always push the same way.
    """

    def __init__(self) -> None:
        self._owed: dict[int, float] = {}

    def realise(self, qps: Sequence[int], layers: Sequence[int], delta: float) -> list[int]:
        """QPs of the pictures with `delta` added, each within 1 to 63."""
        return [self._next(qp, layer, delta) for qp, layer in zip(qps, layers, strict=True)]

    def _next(self, qp: int, layer: int, delta: float) -> int:
        wanted = delta + self._owed.get(layer, 0.0)
        step = round(wanted)
        self._owed[layer] = wanted - step
        return clipped(qp + step)


def control_of(settings: EncoderSettings, qp: int, before: int) -> Decision:
    """What to send a picture with: its QP, or in low delay the base QP where it moves from what it was `before`."""
    if settings.picture_qp:
        return {"qp": qp}
    return {"base_qp": qp} if qp != before else {}


def least_lag(settings: EncoderSettings) -> int:
    """Mini-GOPs that must be decided before the first one's cost is known.

    In random access a mini-GOP leaves the encoder when the next one and eight more pictures have been sent.
    """
    if settings.low_delay:
        return 0
    size: int = 2**settings.levels
    return -(-frames_held(settings) // size)


def frames_held(settings: EncoderSettings) -> int:
    """Frames to be sent after a mini-GOP before the encoder lets it go, for certain."""
    size: int = 2**settings.levels
    return 0 if settings.low_delay else size + 8


def clipped(qp: int) -> int:
    return min(max(qp, LOWEST_QP), HIGHEST_QP)
