"""Search how frames should differ: evolution of `EvolvedShape`'s weights by what they gain over the rule.

A generation tries a few weights around the best so far, each and its mirror image, and goes on from their mean
weighted by rank. An encode has no chance in it, so a gain that was measured once is a fact about these clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.reference import FrameAccount, RuleReference
from reelrl.encode.frameqp.run import run_frame_controller
from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.encode.frameqp.source.preparation import FramePreparation

ALLOWED_ERROR = 0.02
"""Of the bitrate; what lies beyond is charged."""

_CHARGE = 10.0  # dB for twice the bits


@dataclass(frozen=True)
class Evolution:
    """How long and how wide is searched; `spread` is in steps of the quantiser index per unit of an input."""

    generations: int = 8
    pairs: int = 4
    spread: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.generations < 1 or self.pairs < 2 or not self.spread > 0:
            raise ConfigError(
                f"generations = {self.generations}, pairs = {self.pairs}, spread = {self.spread}; "
                "use 1 or more, 2 or more, above 0"
            )


@dataclass(frozen=True)
class Evolved:
    """What was found: weights, their mean gain in dB over the rule, and the best of each generation."""

    weights: tuple[float, ...]
    gain_db: float
    curve: tuple[float, ...]


class Lessons:
    """Clips at bitrates, with what the rule makes of each."""

    def __init__(self, clips: Sequence[FramePreparation], qps: Sequence[int]) -> None:
        self._tasks = []
        for prepared in clips:
            for qp in qps:
                kbps = prepared.kbps_at(qp)
                run = run_frame_controller(prepared.source(kbps=kbps), FrameRateModel())
                self._tasks.append((prepared, kbps, RuleReference(run, prepared.curve_probes(kbps))))

    def __len__(self) -> int:
        return len(self._tasks)

    def gain(self, weights: Sequence[float]) -> float:
        """Mean dB over the rule at the bits spent, less a charge for missed bitrates."""
        gains = []
        for prepared, kbps, reference in self._tasks:
            run = run_frame_controller(prepared.source(kbps=kbps), EvolvedShape(weights))
            gained, _ = FrameAccount(reference).add(run.packets)
            gains.append(gained - _CHARGE * max(abs(run.rate_error) - ALLOWED_ERROR, 0.0))
        return float(np.mean(gains))


def evolve(
    gain: Callable[[Sequence[float]], float], plan: Evolution, on_generation: Callable[[int, float], None] | None = None
) -> Evolved:
    """The best weights found; those of the rule itself, zeros, gain nothing."""
    rng = np.random.default_rng(plan.seed)
    centre, spread = np.zeros(len(INPUTS)), plan.spread
    best, best_gain, curve = centre, 0.0, []
    ranks = np.maximum(0, np.log(plan.pairs + 1) - np.log(np.arange(1, 2 * plan.pairs + 1)))
    with Progress("evolve", plan.generations * 2 * plan.pairs, unit="candidates") as progress:
        for generation in range(plan.generations):
            moves = rng.standard_normal((plan.pairs, len(INPUTS)))
            candidates = [centre + spread * move for pair in moves for move in (pair, -pair)]
            gains = []
            for candidate in candidates:
                gains.append(gain(candidate.tolist()))
                progress.update()
            order = np.argsort(gains)[::-1]
            if gains[order[0]] > best_gain:
                best, best_gain = candidates[order[0]], gains[order[0]]
            else:
                spread *= 0.7  # nothing better so far away
            mean = sum(rank * candidates[at] for rank, at in zip(ranks, order, strict=True)) / ranks.sum()
            centre = (mean + best) / 2
            curve.append(best_gain)
            if on_generation is not None:
                on_generation(generation, best_gain)
    return Evolved(tuple(best.tolist()), best_gain, tuple(curve))
