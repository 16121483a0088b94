"""From matches to a page, through the commands; what a person may get wrong is told."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from reelrl.act.location.contestants import names
from reelrl.act.location.train import LocationTraining
from reelrl.cli.main import main
from tests.act.location.written_matches import PLAN, write_matches
from tests.report.test_page import outside_sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SMALL = [
    *("--set", "encoder.model_type=cnn", "--set", "encoder.channels=[4]", "--set", "encoder.embed_dim=16"),
    *("--set", "samples.frames=2", "--set", "samples.stride=2", "--set", "samples.ahead_s=1.0"),
    *("--set", "matches_per_batch=3", "--set", "moments_of_each=4"),
    *("--set", "net.proj_dim=16", "--set", "net.hidden_dim=32", "--set", "net.fused_agent_dim=16", "--set", "lr=0.005"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matches and three runs on them: two seeds with the term, one without."""
    root = tmp_path_factory.mktemp("world")
    write_matches(root / "data", 14, elsewhere=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REELRL_CACHE", str(root / "cache"))
        for seed, weight in (("0", "2"), ("1", "2"), ("0", "0")):
            train(root, "--seed", seed, "--contrastive-weight", weight, "--epochs", "6")
    return root


@pytest.fixture(autouse=True)
def cache(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(world / "cache"))


def train(root: Path, *more: str) -> None:
    assert main(["train", "location", str(root / "data"), "--output-dir", str(root / "runs"), *SMALL, *more]) == 0


def evaluate(world: Path, runs: list[str], *more: str) -> int:
    folders = [str(world / "runs" / run) for run in runs]
    return main(["evaluate", "location", *folders, "-o", str(world / "out"), *more])


def test_runs_become_tables_maps_and_a_page(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(world, ["0001", "0002", "0003"]) == 0
    text = capsys.readouterr().out
    assert "net - net without term" in text
    summary = json.loads((world / "out/summary.json").read_text())
    assert summary["facts"]["matches"] == 2
    assert [len(runs) for runs in summary["facts"]["nets"].values()] == [2, 1]
    scores = {(r["views"], r["contestant"], r["head"], r["metric"]): r for r in summary["scores"]}
    mates = [scores["all", name, "mates_now", "macro_ap"]["value"] for name in ("prior", "net", "oracle")]
    assert mates[0] < mates[1] <= mates[2] == 1
    among = {record["among"] for record in summary["retrieval"]}
    assert among == {"same match", "other matches", "another map"}
    with (world / "out/places.csv").open() as file:
        assert {row["place"] for row in csv.DictReader(file)} == set(PLAN.places)
    page = (world / "out/index.html").read_text()
    assert page.index("<h1>") < page.index('class="forest"') < page.index("<table")
    assert "on 2 test matches</h1>" in page
    assert {(record["low"], record["high"]) for record in summary["scores"]} == {(None, None)}, "two are too few"
    assert outside_sources(page) == []
    assert (world / "out/maps.png").stat().st_size > 1000


@pytest.mark.long
def test_workers_change_nothing(world: Path) -> None:
    found = []
    for jobs in ("1", "2"):
        assert evaluate(world, ["0001", "0002", "0003"], "--jobs", jobs, "--json") == 0
        summary = json.loads((world / "out/summary.json").read_text())
        found.append((summary["scores"], summary["differences"]))
    assert found[0] == found[1]


def test_a_stopped_run_goes_on(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "location", "--resume", str(world / "runs/0003"), "--epochs", "7"]) == 0
    assert "resume epoch 6" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "location"], "no data to learn from"),
        (["train", "location", "/nowhere"], "holds no matches"),
        (["evaluate", "location", "/nowhere"], "no run at /nowhere"),
    ],
)
def test_what_is_missing_is_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert told in capsys.readouterr().err


def test_a_split_that_does_not_exist_is_told(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(world, ["0001"], "--split", "train") == 1
    assert "give test or val" in capsys.readouterr().err


@pytest.mark.long
def test_embeddings_may_be_all_there_is(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(tmp_path / "kept")
    assert evaluate(world, ["0001"], "--embeddings", kept, "--precomputed") == 1
    assert "has nothing for match" in capsys.readouterr().err
    train(world, "--embeddings", kept, "--epochs", "1")
    train(world, "--embeddings", kept, "--epochs", "1", "--precomputed")
    assert evaluate(world, ["0001"], "--embeddings", kept, "--split", "val", "--json") == 0
    assert json.loads((world / "out/summary.json").read_text())["facts"]["split"] == "val"


def test_runs_about_other_moments_are_not_compared(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(world, "--epochs", "1", "--set", "samples.ahead_s=2.0")
    newest = max(folder.name for folder in (world / "runs").iterdir())
    assert evaluate(world, ["0001", newest]) == 1
    assert "only runs about the same moments" in capsys.readouterr().err


def test_contestants_are_named_by_what_differs() -> None:
    from reelrl.settings import config

    base = config.override(LocationTraining(data="d"), ["net.contrastive.loss_weight=1.0"])
    groups = [config.override(base, changes) for changes in _CHANGES]
    assert names(groups[:2]) == ["net", "net without term"]
    assert names([groups[0], groups[2]]) == ["net, self_pairs False", "net, self_pairs True"]
    assert names([groups[0], groups[3]]) == ["net, pooling mean+last", "net, pooling last"]


_CHANGES = [[], ["net.contrastive.loss_weight=0"], ["net.contrastive.self_pairs=true"], ["pooling=last"]]
