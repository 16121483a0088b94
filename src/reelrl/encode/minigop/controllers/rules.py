"""Deciding mini-GOP deltas by rule.

Random access knows the probe's bits and errors of every mini-GOP: offsets say how mini-GOPs should differ, and one
number for all of them, solved again before each decision, spends what is left. Low delay has no probe:
`leaky_bucket`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.encode.minigop.protocols import possible_delta
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.settings import Structure
    from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, PlannedMiniGop, Situation

DEFAULTS: dict[Structure, str] = {"random_access": "rate-model", "low_delay": "leaky-bucket"}
"""Who decides in a structure where nobody else was asked for."""

LARGEST_OFFSET = 4.0
# QP steps between mini-GOPs, and in all, to make up for bits that others took: the last, cheap ones must not pay for
# all before them.
_LARGEST_MOVE, _LARGEST_CHASE = 1.5, 4.0
_SMALLEST_MSE = 0.05  # of 8-bit levels: below, pictures are all but perfect and their differences mean nothing


class FixedDeltas:
    """Deltas chosen beforehand."""

    privileged = False

    def __init__(self, deltas: Sequence[float]) -> None:
        self.deltas = tuple(deltas)

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        """Nothing to prepare."""

    def act(self, situation: Situation) -> float:
        return self.deltas[situation.request.mg]


class CrfReplay:
    """The same delta for every mini-GOP: 0 leaves the encoder's own pyramid as it is."""

    privileged = False

    def __init__(self, delta: float = 0.0) -> None:
        self.delta = delta

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        """Nothing to prepare."""

    def act(self, situation: Situation) -> float:  # noqa: ARG002 - it looks at nothing
        return self.delta


class RateModel:
    """Meets the budget in one coding pass after the probe; mini-GOPs differ by `offsets`.

    By default a mini-GOP's offset grows with the error that the probe left in it: mean PSNR counts a frame's error
    relative to itself, so where the error is large a bit buys little. `strength` is QP steps per octave of error; 0
    keeps the probe's own allocation.
    """

    privileged = False

    def __init__(self, strength: float = 2.0) -> None:
        self.strength = strength

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        del seed  # nothing here is left to chance
        plan = episode.plan
        if plan is None or any(planned.probe_bits is None for planned in plan):
            raise ConfigError(f"{episode.clip}: no probe to plan from; use leaky-bucket in low delay")
        self._bits = [float(planned.probe_bits or 1) for planned in plan]
        self._octaves_per_qp = episode.octaves_per_qp
        wanted = self.offsets(episode, plan)
        self._offsets = [min(max(offset, -LARGEST_OFFSET), LARGEST_OFFSET) for offset in wanted]
        self._planned = [self._expected(mg, offset) for mg, offset in enumerate(self._offsets)]
        self._deltas: list[float] = []
        self._chase = 0.0

    def offsets(self, episode: MiniGopEpisode, plan: Sequence[PlannedMiniGop]) -> list[float]:
        """How far apart mini-GOPs should be, in QP steps; a number that all have in common changes nothing."""
        return [self.strength * error for error in relative_errors(episode, plan)]

    @property
    def offsets_in_force(self) -> list[float]:
        """The offsets of the episode, none larger than `LARGEST_OFFSET`."""
        return self._offsets

    def act(self, situation: Situation) -> float:
        mg, history, budget = situation.request.mg, situation.history, situation.episode.budget_bits
        scale = self._scale(history)
        known = sum(feedback.bits for feedback in history)
        owed = sum(self._expected(number, self._deltas[number]) for number in range(len(history), mg))
        left = budget - known - scale * owed
        rest = scale * sum(self._planned[mg:])
        # Bits already gone cannot be taken back: what is left is never less than a quarter of what the rest would take.
        common = math.log2(rest / max(left, 0.25 * rest)) / self._octaves_per_qp
        ideal = math.log2(scale * sum(self._planned) / budget) / self._octaves_per_qp  # had the scale been known before
        chase = min(max(common - ideal, self._chase - _LARGEST_MOVE), self._chase + _LARGEST_MOVE)
        self._chase = min(max(chase, -_LARGEST_CHASE), _LARGEST_CHASE)
        delta = possible_delta(ideal + self._chase + self._offsets[mg])
        self._deltas.append(delta)
        return delta

    def _expected(self, mg: int, delta: float) -> float:
        """Bits of a mini-GOP at a delta, by the probe."""
        return self._bits[mg] * math.exp2(-self._octaves_per_qp * delta)

    def _scale(self, history: list[MiniGopFeedback]) -> float:
        """How the bits came out against the expectation; the first ones count with what is usual."""
        if not history:
            return 1.0
        expected = sum(self._expected(feedback.mg, feedback.delta) for feedback in history)
        prior = 0.25 * expected / len(history)
        return (sum(feedback.bits for feedback in history) + prior) / (expected + prior)


class AutoBoost(RateModel):
    """What auto-boost scripts do, under a budget: finer where the probe's quality came out low, for even quality."""

    def __init__(self, strength: float = 1.5) -> None:
        super().__init__(-strength)


def relative_errors(episode: MiniGopEpisode, plan: Sequence[PlannedMiniGop]) -> list[float]:
    """Octaves of each mini-GOP's mean squared error in the probe above the mean, weighted by bits."""
    pixels = episode.width * episode.height
    errors = [math.log2(max((planned.probe_sse or 0) / (planned.frames * pixels), _SMALLEST_MSE)) for planned in plan]
    bits = [planned.probe_bits or 1 for planned in plan]
    mean = sum(error * weight for error, weight in zip(errors, bits, strict=True)) / sum(bits)
    return [error - mean for error in errors]
