"""Labels of a match on disk: whatever happened to the file, it is read or refused in one line."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.act.recording.labels import Labels
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    numbers: Any = np.random.default_rng(seed).standard_normal((40, 3))
    whole = Labels(**dict.fromkeys(Labels.__dataclass_fields__, numbers)).to_bytes()
    path = tmp_path / "labels.npz"
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            Labels.read(path)
        except ContentError as error:
            refused += 1
            assert "are no labels of a match" in str(error)  # noqa: PT017 - most files are refused, some are read
    assert refused > 50
