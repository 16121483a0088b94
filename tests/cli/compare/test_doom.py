"""`reel compare doom`: trains what is missing, plays, and tells the difference with its interval."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.cli.main import main
from tests.cli.doom.test_commands import FEW

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


FRAMES = ["--steps", "12", *(word for change in FEW for word in ("--set", change))]
COMPARE = ["compare", "doom", "--contrastive-weight", "0", "0.5", "--seeds", "2", "--episodes", "1", *FRAMES]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A comparison, one of whose four runs was there before; with what was printed."""
    root = tmp_path_factory.mktemp("compared")
    common = ["--output-dir", str(root)]
    assert main(["train", "doom", "--contrastive-weight", "0.5", "--seed", "1", *FRAMES, *common]) == 0
    with redirect_stdout(io.StringIO()) as printed:
        assert main([*COMPARE, "-o", str(root / "compared.json"), *common]) == 0
    report: dict[str, Any] = json.loads((root / "compared.json").read_text())
    return report | {"printed": printed.getvalue()}


@pytest.mark.long
def test_weights_are_compared_seed_by_seed_and_trained_once(compared: dict[str, Any]) -> None:
    assert compared["printed"].count("done   step 12") == 3  # one of the four was there already
    assert "above 0" in compared["printed"]
    runs = compared["runs"]
    assert [(run["contrastive_weight"], run["seed"]) for run in runs] == [(0, 0), (0.5, 0), (0, 1), (0.5, 1)]
    base, other = compared["weights"]
    assert base["more"] is None
    assert base["contrastive_top1"] == [None, None]
    differences = [runs[i + 1]["returns"][0] - runs[i]["returns"][0] for i in (0, 2)]
    assert other["more_by_seed"] == pytest.approx(differences)
    mean, low, high = other["more"]
    assert mean == pytest.approx(sum(differences) / 2)
    assert low <= mean <= high


@pytest.mark.long
def test_two_processes_train_and_play_to_the_same_figures(
    compared: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "two.json"
    assert main([*COMPARE, "--jobs", "2", "-o", str(out), "--output-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("done ") == 4
    two = json.loads(out.read_text())
    assert two["weights"] == compared["weights"]
    assert [run["returns"] for run in two["runs"]] == [run["returns"] for run in compared["runs"]]


def test_a_comparison_of_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "doom", "--contrastive-weight", "0.1"]) == 1
    assert "a comparison needs two weights" in capsys.readouterr().err
