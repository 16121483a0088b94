"""Frame QP control: what libaom asks before each coded frame, the answer, and what came of it.

`FrameQpSource` asks with a `FrameRequest`, gets a delta on the quantiser index that libaom itself would use, and gives
`CodedFrame`s. Whoever decides (`FrameQpController`: a rule, a trained agent) sees a `FrameSituation` and names the
delta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reelrl.encode.codecs.aom.gops import FrameKind, FrameToCode
from reelrl.encode.codecs.aom.steered_encode import CodedFrame

OCTAVES_PER_STEP = 0.018
"""What one step of the quantiser index on all frames usually takes from the bits; two probes say it better."""

MAX_STEPS = 16.0
"""Largest change of a frame's quantiser index that an agent's action of 1 stands for."""


@dataclass(frozen=True, slots=True)
class PlannedFrame:
    """A coded frame as probes of libaom's constant quality saw it; both figures may lie between two probes."""

    frame: int
    kind: FrameKind
    layer: int
    qindex: float
    bits: float


@dataclass(frozen=True)
class FrameQpEpisode:
    """What a controller may know beforehand.

    plan              every frame that constant quality codes, in coding order, at the budget
    passes            second passes that were made before: the probes
    octaves_per_step  what a step of the quantiser index on all frames takes from the bits of this clip
    first_pass        libaom's statistics: a row per frame, columns as `state.FIRST_PASS` names them
    """

    clip: str
    width: int
    height: int
    frames: int
    fps: Fraction
    kbps: float
    budget_bits: float
    plan: tuple[PlannedFrame, ...]
    passes: int
    octaves_per_step: float
    first_pass: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """libaom asks for the quantiser of the next frame it codes.

    own        what constant quality does with this frame
    bits_left  of the budget for coded frames; `rest_bits` is what constant quality takes from this frame on
    """

    coming: FrameToCode
    own: PlannedFrame
    bits_left: float
    rest_bits: float


@dataclass
class FrameSituation:
    """All that may be looked at for a decision: the facts, the question, and what earlier answers led to.

    deltas     answers so far; `history` says what they led to, each as long as the other
    shown_sse  squared luma errors of the frames shown last
    """

    episode: FrameQpEpisode
    request: FrameRequest
    history: list[CodedFrame] = field(default_factory=list)
    own: list[PlannedFrame] = field(default_factory=list)
    deltas: list[float] = field(default_factory=list)
    shown_sse: list[int] = field(default_factory=list)


class FrameQpController(Protocol):
    """Whoever decides. `privileged` says that it needs to know more than an encoder could."""

    privileged: bool

    def reset(self, seed: int, episode: FrameQpEpisode) -> None:
        """A new clip begins."""
        ...

    def act(self, situation: FrameSituation) -> float:
        """Steps of the quantiser index to add to libaom's own; whole or not."""
        ...
