"""Evolution of a vector by what it gains: CMA-ES with one deviation per number (Ros and Hansen, 2008).

    zeros ──► a few vectors around the mean ──► their gains ──► the mean moves to the better ones ──► again
                                                                deviations follow the moves that paid

An encode has no chance in it: a gain that was measured once is a fact about its clips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Gains = Callable[[Sequence[NDArray[np.float64]]], Sequence[float]]
    """Gains of a few vectors, in their order."""


@dataclass(frozen=True)
class Evolution:
    """How long and how wide is searched; `spread` is the first deviation of each number."""

    generations: int = 12
    candidates: int = 8
    spread: float = 3.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.generations < 1 or self.candidates < 4 or not self.spread > 0:
            raise ConfigError(
                f"generations = {self.generations}, candidates = {self.candidates}, spread = {self.spread}; "
                "use 1 or more, 4 or more, above 0"
            )


@dataclass(frozen=True)
class Evolved:
    """What was found: the best vector, its gain, and the best gain after each generation."""

    best: tuple[float, ...]
    gain: float
    curve: tuple[float, ...]


def evolve(
    gains_of: Gains, size: int, plan: Evolution, on_generation: Callable[[int, float], bool | None] | None = None
) -> Evolved:
    """The best vector found; zeros, which gain nothing by definition, where none gains.

    `on_generation` is given the number and the best gain so far, and ends the search by returning False.
    """
    rng = np.random.default_rng(plan.seed)
    found = _Distribution(size, plan)
    best, best_gain, curve = np.zeros(size), 0.0, []
    with Progress("evolve", plan.generations * plan.candidates, unit="candidates") as progress:
        for generation in range(plan.generations):
            moves = rng.standard_normal((plan.candidates, size)) * found.deviations
            candidates = [found.mean + found.step * move for move in moves]
            gains = np.array(gains_of(candidates))
            progress.update(plan.candidates)
            order = np.argsort(-gains)
            if gains[order[0]] > best_gain:
                best, best_gain = candidates[order[0]], float(gains[order[0]])
            found.follow(moves[order])
            curve.append(best_gain)
            if on_generation is not None and on_generation(generation, best_gain) is False:
                break
    return Evolved(tuple(best.tolist()), best_gain, tuple(curve))


class _Distribution:
    """Where candidates are drawn: a mean, a step for all numbers and a deviation for each."""

    def __init__(self, size: int, plan: Evolution) -> None:
        parents = plan.candidates // 2
        weights = math.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
        self._weights = weights / weights.sum()
        effective = 1 / float((self._weights**2).sum())
        self._effective, self._size = effective, size
        self._step_memory = (effective + 2) / (size + effective + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (size + 1)) - 1) + self._step_memory
        self._path_memory = (4 + effective / size) / (size + 4 + 2 * effective / size)
        separable = (size + 2) / 3  # one deviation per number is learned faster than a whole matrix
        one = 2 / ((size + 1.3) ** 2 + effective) * separable
        many = 2 * (effective - 2 + 1 / effective) / ((size + 2) ** 2 + effective) * separable
        self._rank_one = min(one, 1.0)
        self._rank_many = min(max(many, 0.0), 1 - self._rank_one)
        self._expected = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        self.mean, self.step = np.zeros(size), plan.spread
        self._variances, self._step_path, self._path = np.ones(size), np.zeros(size), np.zeros(size)

    @property
    def deviations(self) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(self._variances))

    def follow(self, moves: NDArray[np.float64]) -> None:
        """Go where the better moves lead; they come best first."""
        chosen = moves[: len(self._weights)]
        mean = self._weights @ chosen
        self.mean = self.mean + self.step * mean
        push = math.sqrt(self._effective)
        memory = self._step_memory
        self._step_path = (1 - memory) * self._step_path + math.sqrt(memory * (2 - memory)) * push * (
            mean / self.deviations
        )
        length = float(np.linalg.norm(self._step_path))
        memory = self._path_memory
        stalled = length > (1.4 + 2 / (self._size + 1)) * self._expected * 1.5
        self._path = (1 - memory) * self._path + (not stalled) * math.sqrt(memory * (2 - memory)) * push * mean
        self._variances = (
            (1 - self._rank_one - self._rank_many) * self._variances
            + self._rank_one * self._path**2
            + self._rank_many * (self._weights @ chosen**2)
        )
        self.step *= math.exp(min((self._step_memory / self._damping) * (length / self._expected - 1), 0.5))
