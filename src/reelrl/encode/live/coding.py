"""A clip coded live: look at a frame, choose its QP, code it, learn what it took; only then comes the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.content.quality import sse, sse_in_8_bits
from reelrl.encode.codecs.aom.realtime import REAL_TIME
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.packet import Packet
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.live.bits import RuleBits
from reelrl.encode.live.controller import LiveController, LiveTuning
from reelrl.encode.live.drawn import is_drawn
from reelrl.encode.live.frame_look import FrameLooker
from reelrl.encode.live.learned_bits import LearnedBits, load_net
from reelrl.encode.live.link import LiveViewer, Uplink
from reelrl.encode.live.own_cbr import own_cbr
from reelrl.encode.live.structure import LEVELS
from reelrl.encode.live.weights import SHIPPED
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.live.bits import FrameBits

_SHORTEST = 2 ** (LEVELS + 1)  # frames of a session: a flash is no scene
_LEAST_KBPS = 1.0  # where a link is down, the target is next to nothing

LIVE = EncoderSettings(preset=10, picture_qp=True, structure="low_delay", keyint=-1)
LIVE_AOM = replace(LIVE, backend=REAL_TIME, preset=9)

FLAT = LiveTuning(offsets=(0.0,))
"""For encoders without layers."""

BACKENDS = {"svtav1": (LIVE, LiveTuning()), "aom": (LIVE_AOM, FLAT)}
"""Settings and constants of each encoder."""


@dataclass(frozen=True)
class LivePlan:
    """kbps    to hold; with a link, the most that is asked of it
    buffer_s   seconds that a frame may be under way before it is late
    link       whose rate is the target, frame by frame
    drop       leave a frame out that would be late at any QP
    twice      code frames afresh once as a picture by itself, to know what they take before they are coded
    watch      measure what is on the screen when each frame is due
    qps        choose QPs also where the encoder's own cbr does better (`drawn`)
    bits       who predicts: "rule", "learned", or a file of `reel fit live`
    """

    kbps: float
    buffer_s: float = 1.0
    link: Uplink | None = None
    drop: bool = False
    twice: bool = False
    watch: bool = False
    qps: bool = False
    bits: str = "rule"
    tuning: LiveTuning = field(default_factory=LiveTuning)

    def kbps_at(self, time_s: float) -> float:
        """What to hold at an instant."""
        return self.kbps if self.link is None else min(max(self.link.kbps_at(time_s), _LEAST_KBPS), self.kbps)


@dataclass
class LiveStream:
    """packets    in display order; None where a frame was dropped
    sse_y         of coded pictures against the source, in 8-bit levels; for a dropped frame, of the one before it
    decision_s    from the look to the QP, and to have learnt, for each coded frame; `look_s` is the look itself
    viewer        with the delay of each frame, and with `watch` what was seen
    cbr_frames    at the beginning, left to the encoder's own cbr
    """

    viewer: LiveViewer
    packets: list[Packet | None] = field(default_factory=list)
    sse_y: list[int] = field(default_factory=list)
    decision_s: list[float] = field(default_factory=list)
    look_s: list[float] = field(default_factory=list)
    cbr_frames: int = 0

    @property
    def dropped(self) -> int:
        return sum(packet is None for packet in self.packets)

    @property
    def bits(self) -> int:
        return sum(8 * packet.size for packet in self.packets if packet is not None)


def encode_live(clip: Clip, plan: LivePlan, settings: EncoderSettings = LIVE) -> LiveStream:
    """The whole clip, frame by frame."""
    # With pictures: without them it measures those that nobody refers to before their last filters.
    settings = replace(settings.for_clip(clip), hierarchical_levels=plan.tuning.levels, picture_qp=True, recon=True)
    if not settings.low_delay:
        raise ConfigError(f"structure = {settings.structure}; live coding holds nothing back: use low_delay")
    frames, level_bits = iter(clip), 0.0
    opening = next(frames)
    cbr = not plan.qps and capabilities(settings.backend).cbr_target_change and is_drawn(opening)
    stream = LiveStream(LiveViewer(plan.link or Uplink.constant(plan.kbps), float(clip.fps), plan.buffer_s))
    first: Frame | None = opening
    while first is not None:
        controller = _controller(clip, plan, level_bits)
        chosen = own_cbr(settings, LEVELS, _target(controller), plan.buffer_s) if cbr else settings
        with EncoderSession(chosen) as session:
            first = _code(chain([first], frames), controller, session, stream, plan)
        level_bits, cbr = controller.level_bits, False
    return stream


def _controller(clip: Clip, plan: LivePlan, level_bits: float) -> LiveController:
    bits = predictor(plan.bits, clip.width * clip.height)
    made = LiveController(
        fps=float(clip.fps), kbps=plan.kbps_at(0), buffer_s=plan.buffer_s, bits=bits, tuning=plan.tuning
    )
    made.level_bits = level_bits
    return made


def _code(
    frames: Iterable[Frame], controller: LiveController, session: EncoderSession, stream: LiveStream, plan: LivePlan
) -> Frame | None:
    """Code up to a frame that another session begins with, which is given back; None at the end of the clip.

    In cbr that is the first frame that is not drawn, or that a full bucket would make late however few bits it took;
    else the first after a cut, which in this session could fall into a layer that nobody refers to.
    """
    before, began, cbr = None, len(stream.packets), session.settings.steers_rate
    looker, target = FrameLooker(session.settings.width, session.settings.height), _target(controller)
    for frame in frames:
        clock = [time.perf_counter()]
        if cbr and not (is_drawn(frame) and controller.room_bits > 0):
            return frame
        number = len(stream.packets)
        controller.set_rate(plan.kbps_at(number / controller.fps))
        clock.append(time.perf_counter())
        look = looker.look(frame)
        clock.append(time.perf_counter())
        if look.is_cut and number >= began + _SHORTEST and plan.tuning.levels and not cbr:
            return frame
        stream.cbr_frames += cbr
        qp = controller.decide(look)
        clock.append(time.perf_counter())
        stream.look_s.append(clock[2] - clock[1])
        if plan.twice and controller.afresh and not cbr:
            qp = controller.decide_again(qp, _tried(session.settings, frame, qp))
        if plan.drop and before is not None and controller.is_lost:
            controller.skip()
            stream.packets.append(None)
            stream.sse_y.append(sse_in_8_bits(sse(frame.y, before.y), frame.depth))
            stream.viewer.is_sent(None, frame)
            continue
        if cbr:
            # Sent only when it changes: cbr begins anew with each target, and forgets what its buffer holds.
            last_target, target = target, _target(controller)
            session.send(frame, kbps=target if target != last_target else None)
        else:
            session.send(frame, qp=qp)
        (packet,) = session.receive()
        clock.append(time.perf_counter())
        controller.learn(packet.qp, 8 * packet.size)
        stream.decision_s.append(clock[1] - clock[0] + clock[3] - clock[2] + time.perf_counter() - clock[4])
        packet.number = number
        stream.packets.append(packet)
        stream.sse_y.append(packet.luma_sse_in_8_bits)
        before, packet.recon = packet.recon, None
        stream.viewer.is_sent(8 * packet.size, frame, before if plan.watch else None)
    return None


def _target(controller: LiveController) -> float:
    """Whole kbit/s, so that cbr does not begin anew with every little change."""
    return float(max(round(controller.kbps), 1))


def _tried(settings: EncoderSettings, frame: Frame, qp: int) -> int:
    """Bits of the frame by itself, as the first of a stream."""
    with EncoderSession(replace(settings, recon=False)) as trial:
        trial.send(frame, qp=qp)
        (packet,) = trial.receive()
        return 8 * packet.size


def predictor(name: str, pixels: int) -> FrameBits:
    """Who predicts bits, by name or file."""
    if name == "rule":
        return RuleBits(pixels)
    return LearnedBits(pixels, load_net(SHIPPED if name == "learned" else Path(name)))
