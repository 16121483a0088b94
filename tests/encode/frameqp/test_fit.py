"""Linear rules over frames: their files are read back or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
from reelrl.encode.frameqp.evaluation.encodes import controller_of
from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = np.linspace(-4, 4, len(INPUTS))


def test_a_rule_is_read_back_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "shape.json"
    EvolvedShape(WEIGHTS.tolist(), {"clips": ["a"]}).save(path)
    made = controller_of(str(path))
    assert isinstance(made, EvolvedShape)
    np.testing.assert_array_equal(made.weights, WEIGHTS)
    path.write_text(path.read_text().replace('"depth"', '"height"'))
    with pytest.raises(CheckpointError, match="fit it anew"):
        controller_of(str(path))
    path.write_text("{}")
    with pytest.raises(CheckpointError, match="reel fit frameqp"):
        controller_of(str(path))


def test_a_rule_without_a_weight_per_input_is_refused() -> None:
    with pytest.raises(CheckpointError, match="one per input"):
        EvolvedShape([1.0])
