"""Search by evolution: both forms find what there is to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.evolution import Evolution, evolve, minimise
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BEST = np.linspace(-4, 4, 11)


def hill(candidates: Sequence[Sequence[float] | NDArray[np.float64]]) -> list[float]:
    """Gains in a world whose best vector is known; zeros gain nothing."""
    return [float((BEST**2).sum() - ((np.array(each) - BEST) ** 2).sum()) / 100 for each in candidates]


def test_evolution_climbs_and_never_falls() -> None:
    found = evolve(hill, len(BEST), Evolution(generations=30, candidates=12, seed=1))
    assert list(found.curve) == sorted(found.curve)
    assert found.gain == hill([found.best])[0] > 0.95 * hill([BEST])[0]


def test_where_nothing_gains_zeros_are_the_answer() -> None:
    found = evolve(lambda many: [-float(np.abs(each).sum()) for each in many], 5, Evolution(generations=3))
    assert (set(found.best), found.gain) == ({0.0}, 0.0)


def test_a_search_ends_when_it_is_asked_to() -> None:
    assert len(evolve(hill, len(BEST), Evolution(generations=9), lambda number, _: number < 2).curve) == 3


def test_the_lowest_point_is_found() -> None:
    target, best = np.linspace(-1, 1, 6), [np.inf]

    def cost(vector: NDArray[np.float64]) -> float:
        value = float((np.arange(1, 7) * (vector - target) ** 2).sum())
        best[0] = min(best[0], value)
        return value

    minimise(cost, np.zeros(6), 0.3, 8, 100, seed=0)
    assert best[0] < 1e-4


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ConfigError, match="candidates = 1"):
        Evolution(candidates=1)
