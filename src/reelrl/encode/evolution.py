"""Search for a vector by evolution (CMA-ES): `minimise` learns a whole matrix, `evolve` one deviation per number.

    a few vectors around the mean ──► their gains or costs ──► the mean moves to the better ones ──► again
                                                               deviations follow the moves that paid

A matrix (Hansen, 2016) suits a dozen numbers; single deviations (Ros and Hansen, 2008) are learned in fewer encodes
where there are more. An encode has no chance in it: a gain that was measured once is a fact about its clips.
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

    Vector = NDArray[np.float64]
    Gains = Callable[[Sequence[Vector]], Sequence[float]]
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
        self._rates = rates = _Rates.of(size, plan.candidates // 2)
        separable = (size + 2) / 3  # one deviation per number is learned faster than a whole matrix
        self._rank_one = min(rates.rank_one * separable, 1.0)
        self._rank_many = min(max(rates.rank_many * separable, 0.0), 1 - self._rank_one)
        self._size, self.mean, self.step = size, np.zeros(size), plan.spread
        self._variances, self._step_path, self._path = np.ones(size), np.zeros(size), np.zeros(size)

    @property
    def deviations(self) -> Vector:
        return np.asarray(np.sqrt(self._variances))

    def follow(self, moves: Vector) -> None:
        """Go where the better moves lead; they come best first."""
        rates = self._rates
        chosen = moves[: len(rates.weights)]
        mean = rates.weights @ chosen
        self.mean = self.mean + self.step * mean
        push = math.sqrt(rates.effective)
        memory = rates.step_memory
        self._step_path = (1 - memory) * self._step_path + math.sqrt(memory * (2 - memory)) * push * (
            mean / self.deviations
        )
        length = float(np.linalg.norm(self._step_path))
        memory = rates.path_memory
        stalled = length > (1.4 + 2 / (self._size + 1)) * rates.usual_length * 1.5
        self._path = (1 - memory) * self._path + (not stalled) * math.sqrt(memory * (2 - memory)) * push * mean
        self._variances = (
            (1 - self._rank_one - self._rank_many) * self._variances
            + self._rank_one * self._path**2
            + self._rank_many * (rates.weights @ chosen**2)
        )
        self.step *= math.exp(min((rates.step_memory / rates.damping) * (length / rates.usual_length - 1), 0.5))


def minimise(
    cost: Callable[[Vector], float], start: Vector, step: float, population: int, generations: int, seed: int
) -> None:
    """Search for a low `cost`, which remembers the best point it has seen."""
    rng, size = np.random.default_rng(seed), len(start)
    rates = _Rates.of(size, population // 2)
    c_step, c_path, c_one, weights = rates.step_memory, rates.path_memory, rates.rank_one, rates.weights
    c_mu = min(1 - c_one, rates.rank_many)
    mean, covariance = start.astype(np.float64), np.eye(size)
    path, step_path = np.zeros(size), np.zeros(size)
    for _ in range(generations):
        values, axes = np.linalg.eigh(covariance)
        root = axes * np.sqrt(np.maximum(values, 1e-12))
        drawn = rng.standard_normal((population, size)) @ root.T
        ranked = drawn[np.argsort([cost(mean + step * direction) for direction in drawn])[: len(weights)]]
        moved = weights @ ranked
        mean = mean + step * moved
        whitened = axes @ ((axes.T @ moved) / np.sqrt(np.maximum(values, 1e-12)))
        step_path = (1 - c_step) * step_path + math.sqrt(c_step * (2 - c_step) * rates.effective) * whitened
        path = (1 - c_path) * path + math.sqrt(c_path * (2 - c_path) * rates.effective) * moved
        rank_mu = (ranked.T * weights) @ ranked
        covariance = (1 - c_one - c_mu) * covariance + c_one * np.outer(path, path) + c_mu * rank_mu
        step *= math.exp(c_step / rates.damping * (float(np.linalg.norm(step_path)) / rates.usual_length - 1))


@dataclass(frozen=True, eq=False)
class _Rates:
    """What CMA-ES derives from how many numbers are searched and how many candidates of a generation are parents.

    weights       of the parents, best first, falling with the logarithm of the rank
    effective     parents, as many as these weights stand for
    step_memory   of the path that sets the step; path_memory: of the one that bends the distribution
    rank_one      share of that path in the new covariance; rank_many: share of the parents
    usual_length  of a vector of standard normal numbers
    """

    weights: Vector
    effective: float
    step_memory: float
    path_memory: float
    damping: float
    rank_one: float
    rank_many: float
    usual_length: float

    @classmethod
    def of(cls, size: int, parents: int) -> _Rates:
        weights = np.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
        weights /= weights.sum()
        effective = 1 / float(np.square(weights).sum())
        step_memory = (effective + 2) / (size + effective + 5)
        return cls(
            weights=weights,
            effective=effective,
            step_memory=step_memory,
            path_memory=(4 + effective / size) / (size + 4 + 2 * effective / size),
            damping=1 + step_memory + 2 * max(0.0, math.sqrt((effective - 1) / (size + 1)) - 1),
            rank_one=2 / ((size + 1.3) ** 2 + effective),
            rank_many=2 * (effective - 2 + 1 / effective) / ((size + 2) ** 2 + effective),
            usual_length=math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2)),
        )
