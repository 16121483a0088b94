"""What the encoder does by itself: its own rate controls, as contestants at settings matched to ours.

| mode | passes | structure      | mini-GOP                     |                                                  |
|------|--------|----------------|------------------------------|--------------------------------------------------|
| crf  | 1      | of the goal    | of the goal                  | no target: it is what the target rates come from |
| vbr1 | 1      | random access  | 16 frames                    |                                                  |
| vbr2 | 2      | random access  | 16 frames                    | the first pass is charged                        |
| cbr  | 1      | low delay      | 4 frames: SVT-AV1 takes none larger in cbr | ours and crf have 8                |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.encode.codecs.settings import RateControl, Structure
from reelrl.encode.codecs.whole_clip import encode_packets, fresh_first_pass
from reelrl.encode.minigop.evaluation.encode_cache import CpuClock, Encode, Stream, cached_encode
from reelrl.encode.minigop.protocols import Goal

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

LEVELS = {"vbr": 4, "cbr": 3}
"""Hierarchical levels of each goal; a mini-GOP has 2**levels frames."""

CBR_LEVELS = 2
"""The most that SVT-AV1's own cbr takes."""


@dataclass(frozen=True)
class Mode:
    rate_control: RateControl
    passes: int
    goals: tuple[Goal, ...]
    note: str = ""


MODES: dict[str, Mode] = {
    "crf": Mode("crf", 1, ("vbr", "cbr"), "no target"),
    "vbr1": Mode("vbr", 1, ("vbr",)),
    "vbr2": Mode("vbr", 2, ("vbr",)),
    "cbr": Mode("cbr", 1, ("cbr",), "mini-GOPs of 4, the most it takes; others have 8"),
}


def structured(encoder: EncoderSettings, goal: Goal) -> EncoderSettings:
    """The settings with the structure that a goal is coded in."""
    # With recon: without it the encoder measures leaf pictures before they are filtered, up to 2 % off.
    structure: Structure = "random_access" if goal == "vbr" else "low_delay"
    return replace(encoder, structure=structure, hierarchical_levels=LEVELS[goal], rate_control="crf", recon=True)


def crf_encode(clip: Clip, encoder: EncoderSettings, qp: int, *, with_vmaf: bool = False) -> Encode:
    """The clip at one quality; `encoder` is `structured`."""
    return _encode(clip, replace(encoder, rate_control="crf", qp=qp, ssim=True), 1, with_vmaf)


def mode_encode(clip: Clip, encoder: EncoderSettings, name: str, kbps: float, *, with_vmaf: bool = False) -> Encode:
    """The clip at one bitrate by a mode of the encoder; `encoder` is `structured`."""
    mode = MODES[name]
    levels = min(encoder.levels, CBR_LEVELS) if mode.rate_control == "cbr" else encoder.levels
    held = replace(
        encoder, rate_control=mode.rate_control, target_kbps=kbps, hierarchical_levels=levels, picture_qp=False
    )
    return _encode(clip, replace(held, ssim=True), mode.passes, with_vmaf)


def _encode(clip: Clip, settings: EncoderSettings, passes: int, with_vmaf: bool) -> Encode:
    def make() -> Stream:
        clock = CpuClock()
        statistics = fresh_first_pass(clip, settings) if passes == 2 else None
        packets = [without_picture(packet) for packet in encode_packets(clip, settings, statistics=statistics)]
        return Stream(packets, clock.seconds, passes)

    return cached_encode(clip, settings, {"passes": passes}, make, with_vmaf=with_vmaf)


def without_picture(packet: Packet) -> Packet:
    """The packet alone: pictures of a whole clip would fill the memory."""
    packet.recon = None
    return packet
