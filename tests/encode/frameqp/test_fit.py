"""The search for how frames should differ: it finds what there is to find, and its file is read back or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
from reelrl.encode.frameqp.evaluation.encodes import controller_of
from reelrl.encode.frameqp.fit import Evolution, evolve
from reelrl.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEST = np.linspace(-4, 4, len(INPUTS))


def hill(weights: Sequence[float]) -> float:
    """Gain in a world whose best weights are known; the rule, at zero, gains nothing."""
    return float((BEST**2).sum() - ((np.array(weights) - BEST) ** 2).sum()) / 100


def test_evolution_climbs_and_never_falls() -> None:
    found = evolve(hill, Evolution(generations=30, pairs=6, seed=1))
    assert list(found.curve) == sorted(found.curve)
    assert found.gain_db == hill(found.weights) > 0.8 * hill(BEST.tolist())


def test_where_nothing_gains_the_rule_is_kept() -> None:
    found = evolve(lambda weights: -float(np.abs(weights).sum()), Evolution(generations=3, pairs=2))
    assert (set(found.weights), found.gain_db) == ({0.0}, 0.0)


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
    with pytest.raises(ConfigError, match="pairs = 1"):
        Evolution(pairs=1)
    with pytest.raises(CheckpointError, match="one per input"):
        EvolvedShape([1.0])
