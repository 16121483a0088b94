"""Mini-GOP QP control: what an encoder asks before each mini-GOP, the answer, and what came of it.

Whoever codes (`MiniGopSource`: the encoder in this process, or a foreign one behind files in a folder) asks with a
`MiniGopRequest`, gets a delta on its own QP pyramid, and later gives a `MiniGopFeedback`. Whoever decides
(`MiniGopController`: the encoder's own choice, a heuristic, a trained agent) sees a `Situation` and names the delta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.packet import Packet

LOWEST_QP, HIGHEST_QP = 1, 63

OCTAVES_PER_QP = 0.095
"""What one QP step on a whole pyramid usually takes from the bits: 0.06 to 0.12, grain 0.20 (minigop_facts.py)."""

CRF_STEPS_PER_QP = 1.2
"""A QP step on all layers takes more bits than one of CRF, which spares the lower ones."""

MAX_DELTA = 6.0
"""Largest change of a mini-GOP's QPs that an agent's action of 1 stands for."""

Goal = Literal["vbr", "cbr"]


def possible_delta(delta: float) -> float:
    """The nearest delta that a source takes; a rate that no QP gives (8 Mbit/s for a thumbnail) wants one beyond."""
    return min(max(delta, float(-HIGHEST_QP)), float(HIGHEST_QP))


@dataclass(frozen=True)
class PlannedMiniGop:
    """A mini-GOP as it is known before it is coded: by analysis of the source, and by a probe pass where there is one.

    layer_qps              QP the encoder itself would give each picture, in display order
    features               complexity by name: intra, inter, motion, scene_cut and what else the analysis knows
    probe_bits, probe_sse  what the probe pass spent and missed (luma, summed over frames, in 8-bit levels); None
                           without a probe
    """

    mg: int
    gop: int
    first_frame: int
    frames: int
    base_qp: int
    layer_qps: tuple[int, ...]
    features: dict[str, float]
    probe_bits: int | None = None
    probe_sse: int | None = None


@dataclass(frozen=True)
class MiniGopEpisode:
    """What a controller may know beforehand.

    plan            every mini-GOP where the encoder looks ahead (random access); None where frames come one by one
    passes          encodes of the whole clip that were made before: 0, 1 (the probe), 2 where the first was far off
    budget_bits     for the whole clip ("vbr"); `kbps` at every moment within `buffer_s` of a leaky bucket ("cbr")
    feedback_lag    mini-GOPs between a decision and the first one that knows what it cost
    octaves_per_qp  what a QP step on the whole pyramid takes from the bits of this clip, where samples were encoded
    """

    clip: str
    width: int
    height: int
    frames: int
    fps: Fraction
    goal: Goal
    kbps: float
    budget_bits: float
    buffer_s: float
    feedback_lag: int
    passes: int
    plan: tuple[PlannedMiniGop, ...] | None = None
    octaves_per_qp: float = OCTAVES_PER_QP


@dataclass(frozen=True)
class MiniGopRequest:
    """The encoder asks for the QP of its next mini-GOP."""

    mg: int
    gop: int
    first_frame: int
    frames: int
    base_qp: int
    layer_qps: tuple[int, ...]
    bits_left: float
    frames_left: int
    features: dict[str, float]


@dataclass(frozen=True)
class MiniGopFeedback:
    """What a mini-GOP cost and gave. `delta` is what was asked for, `qp` the base that came of it.

    `sse_y` is in 8-bit levels, whatever the depth of the video. `psnr_y` is no number where the encoder was not asked
    to measure.
    """

    mg: int
    qp: int
    bits: int
    psnr_y: float
    gop_end: bool
    frames: int
    delta: float = 0.0
    sse_y: int = 0
    ssim_y: float | None = None


@dataclass
class Situation:
    """All that may be looked at for a decision: the facts, the question, and what earlier answers led to."""

    episode: MiniGopEpisode
    request: MiniGopRequest
    history: list[MiniGopFeedback] = field(default_factory=list)


class MiniGopSource(Protocol):
    """An encoder that asks."""

    episode: MiniGopEpisode

    @property
    def packets(self) -> Sequence[Packet]:
        """The stream so far, in display order; empty where another process keeps it."""
        ...

    @property
    def sent_qps(self) -> Sequence[int]:
        """QP (random access) or base QP (low delay) sent with each picture; empty where another process sends them."""
        ...

    def request(self) -> MiniGopRequest | None:
        """The next question; None when the clip is over."""
        ...

    def reply(self, delta: float) -> None:
        """QP steps, whole or not, to add to the pyramid of the mini-GOP asked about."""
        ...

    def feedback(self) -> list[MiniGopFeedback]:
        """What became known since the last call; after the last request, everything that was still owed."""
        ...

    def close(self) -> None: ...


class MiniGopController(Protocol):
    """Decides deltas. `privileged` ones know what a real encoder could not, and are reported as oracles."""

    privileged: bool

    def reset(self, seed: int, episode: MiniGopEpisode) -> None: ...

    def act(self, situation: Situation) -> float:
        """Delta in QP steps."""
        ...
