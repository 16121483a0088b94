"""`reel compare doom`: trains what is missing, plays, and tells the difference with its interval."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from tests.cli.doom.test_commands import FEW

if TYPE_CHECKING:
    from pathlib import Path


def test_weights_are_compared_seed_by_seed_and_trained_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [word for change in FEW for word in ("--set", change)]
    common = ["--frames", "12", "--output-dir", str(tmp_path), *changes]
    assert main(["train", "doom", "--contrastive-weight", "0.5", "--seed", "1", *common]) == 0
    command = ["compare", "doom", "--contrastive-weight", "0", "0.5", "--seeds", "2", "--episodes", "1"]
    capsys.readouterr()
    assert main([*command, "-o", str(tmp_path / "found.json"), *common]) == 0
    told = capsys.readouterr().out
    assert told.count("done   step 12") == 3  # one of the four was there already
    assert "above 0" in told
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(one["contrastive_weight"], one["seed"]) for one in found["runs"]] == [(0, 0), (0.5, 0), (0, 1), (0.5, 1)]
    base, other = found["weights"]
    assert base["more"] is None
    assert base["contrastive_top1"] == [None, None]
    differences = [found["runs"][i + 1]["returns"][0] - found["runs"][i]["returns"][0] for i in (0, 2)]
    assert other["more_by_seed"] == pytest.approx(differences)
    mean, low, high = other["more"]
    assert mean == pytest.approx(sum(differences) / 2)
    assert low <= mean <= high


def test_a_comparison_of_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "doom", "--contrastive-weight", "0.1"]) == 1
    assert "a comparison needs two weights" in capsys.readouterr().err
