"""What constant quality would do at a bitrate: read off between two probes, frame by frame."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.encode.frameqp.protocols import OCTAVES_PER_STEP, PlannedFrame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.encode.frameqp.source.probe import FrameProbe

STEPS_PER_QP = 4
_FARTHEST = 1.5  # times the distance of two probes, beyond them
_LEAST_OCTAVES, _MOST_OCTAVES = 0.01, 0.08  # of a step of the quantiser index


@dataclass(frozen=True)
class FramePlan:
    """Every coded frame at a budget. `qp` is the constant quality that comes nearest to it."""

    qp: int
    frames: tuple[PlannedFrame, ...]
    octaves_per_step: float


def plan_at(bits: float, probes: Mapping[int, FrameProbe]) -> FramePlan:
    """The plan that spends so many bits, by probes at one QP or more."""
    qps = sorted(probes, key=lambda qp: abs(_octaves(probes[qp], bits)))
    nearest = qps[0]
    # The other side of the budget if there is one: between two probes all is safer than beyond them.
    above = _octaves(probes[nearest], bits) > 0
    across = [qp for qp in qps[1:] if (_octaves(probes[qp], bits) > 0) != above]
    others = across or qps[1:]
    near = probes[nearest]
    if not others:
        steps = _octaves(near, bits) / OCTAVES_PER_STEP
        return FramePlan(_clipped(nearest + steps / STEPS_PER_QP), _moved(near, bits, steps), OCTAVES_PER_STEP)
    other = others[0]
    far = probes[other]
    span = math.log2(near.bits / far.bits)
    steps = STEPS_PER_QP * (other - nearest)
    octaves = min(max(span / steps, _LEAST_OCTAVES), _MOST_OCTAVES)
    share = min(max(_octaves(near, bits) / (octaves * steps), -_FARTHEST), _FARTHEST)
    return FramePlan(_clipped(nearest + share * (other - nearest)), _between(near, far, share, bits), octaves)


def _octaves(probe: FrameProbe, bits: float) -> float:
    """How far the probe is above the budget."""
    return math.log2(probe.bits / bits)


def _moved(near: FrameProbe, bits: float, steps: float) -> tuple[PlannedFrame, ...]:
    """One probe's frames, all by the same steps."""
    frames = [replace(each, qindex=each.qindex + steps) for each in near.frames]
    return _spending(_without_headers(near, bits), frames)


def _between(near: FrameProbe, far: FrameProbe, share: float, bits: float) -> tuple[PlannedFrame, ...]:
    """Quantisers and logarithms of bits at `share` of the way from one probe to the other."""
    others = {(each.frame, each.kind): each for each in far.frames}
    frames = []
    for each in near.frames:
        other = others.get((each.frame, each.kind))
        if other is None:
            frames.append(each)
            continue
        qindex = each.qindex + share * (other.qindex - each.qindex)
        octaves = share * math.log2(max(other.bits, 1) / max(each.bits, 1))
        frames.append(replace(each, qindex=qindex, bits=each.bits * math.exp2(octaves)))
    return _spending(_without_headers(near, bits), frames)


def _without_headers(near: FrameProbe, bits: float) -> float:
    """Of a budget what is left for coded frames; headers and frames shown again cost the same at any quality."""
    headers = near.bits - sum(each.bits for each in near.frames)
    return max(bits - headers, bits / 2)


def _spending(bits: float, frames: Sequence[PlannedFrame]) -> tuple[PlannedFrame, ...]:
    ratio = bits / sum(each.bits for each in frames)
    return tuple(replace(each, bits=each.bits * ratio) for each in frames)


def _clipped(qp: float) -> int:
    return min(max(round(qp), 1), 63)
