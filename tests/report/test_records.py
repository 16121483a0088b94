from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

from reelrl.report import records

if TYPE_CHECKING:
    from pathlib import Path


def test_tables_and_conclusions_are_files_of_their_own(tmp_path: Path) -> None:
    rows = [{"clip": "a, b", "kbps": 1.5}, {"clip": "c", "kbps": 2.0}]
    records.write(tmp_path, {"points": rows}, {"verdicts": [1]}, {"seed": 3})
    with (tmp_path / "points.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"clip": "a, b", "kbps": "1.5"}, {"clip": "c", "kbps": "2.0"}]
    assert json.loads((tmp_path / "summary.json").read_text()) == {"facts": {"seed": 3}, "verdicts": [1]}


def test_nothing_of_an_earlier_evaluation_stays(tmp_path: Path) -> None:
    records.write(tmp_path, {"points": [{"clip": "a"}]}, {}, {}, name="results")
    records.write(tmp_path, {"points": []}, {}, {}, name="results")
    assert (tmp_path / "points.csv").read_text().split() == ["nothing"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points.csv", "results.json"]
