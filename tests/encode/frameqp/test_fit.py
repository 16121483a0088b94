"""The search for how frames should differ: it finds what there is to find, and its file is read back or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
from reelrl.encode.frameqp.evaluation.encodes import controller_of
from reelrl.encode.frameqp.evolution import Evolution, evolve
from reelrl.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

BEST = np.linspace(-4, 4, len(INPUTS))


def hill(candidates: Sequence[Sequence[float] | NDArray[np.float64]]) -> list[float]:
    """Gains in a world whose best weights are known; the rule, at zero, gains nothing."""
    return [float((BEST**2).sum() - ((np.array(each) - BEST) ** 2).sum()) / 100 for each in candidates]


def test_evolution_climbs_and_never_falls() -> None:
    found = evolve(hill, len(BEST), Evolution(generations=30, candidates=12, seed=1))
    assert list(found.curve) == sorted(found.curve)
    assert found.gain == hill([found.best])[0] > 0.95 * hill([BEST])[0]


def test_where_nothing_gains_the_rule_is_kept() -> None:
    found = evolve(lambda many: [-float(np.abs(each).sum()) for each in many], 5, Evolution(generations=3))
    assert (set(found.best), found.gain) == ({0.0}, 0.0)


def test_a_search_ends_when_it_is_told_to() -> None:
    assert len(evolve(hill, len(BEST), Evolution(generations=9), lambda number, _: number < 2).curve) == 3


def test_a_rule_is_read_back_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "shape.json"
    EvolvedShape(BEST.tolist(), {"clips": ["a"]}).save(path)
    made = controller_of(str(path))
    assert isinstance(made, EvolvedShape)
    np.testing.assert_array_equal(made.weights, BEST)
    path.write_text(path.read_text().replace('"depth"', '"height"'))
    with pytest.raises(CheckpointError, match="fit it anew"):
        controller_of(str(path))
    path.write_text("{}")
    with pytest.raises(CheckpointError, match="reel fit frameqp"):
        controller_of(str(path))


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ConfigError, match="candidates = 1"):
        Evolution(candidates=1)
    with pytest.raises(CheckpointError, match="one per input"):
        EvolvedShape([1.0])
