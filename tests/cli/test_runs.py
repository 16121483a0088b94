"""`reel runs` and `reel runs clean`, on real trainings."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.cli.main import main
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.saving import Saving
from reelrl.stream.train import AbrTraining
from tests.cli.train.trainings import TRAININGS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)


def listed(root: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["runs", str(root), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_a_run_says_how_it_ended_how_far_it_came_and_how_well(
    run_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = TRAININGS["abr"]
    assert training.start(run_root) == 0
    (done,) = listed(run_root, capsys)
    run = RunFolder(done["folder"])
    assert (done["stage"], done["state"], done["seed"]) == ("abr", "done", 0)
    assert done["step"] >= 6000
    assert done["best"] == max(record["score"] for record in run.metrics() if "score" in record)
    assert done["size_bytes"] == sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())

    with monkeypatch.context() as patch:
        patch.setattr(Saving, "reached", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert training.start(run_root) == 130
        patch.setattr(Saving, "reached", lambda *_, **__: (_ for _ in ()).throw(ValueError("broken")))
        with pytest.raises(ValueError, match="broken"):
            training.start(run_root)
    assert [each["state"] for each in listed(run_root, capsys)] == ["done", "stopped", "failed"]

    with Run.open(run_root / "0002"):
        assert [each["state"] for each in listed(run_root, capsys)] == ["done", "running", "failed"]
    assert main(["train", "abr", "--resume", str(run_root / "0002")]) == 0
    assert [each["state"] for each in listed(run_root, capsys)] == ["done", "done", "failed"]


def test_what_comes_next_is_a_run_that_can_be_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = saved(tmp_path, 1, "done")
    with Run.create(tmp_path, AbrTraining(), stage="frame-reader", name="reader", seed=0, tensorboard=False):
        pass
    assert main(["runs", str(tmp_path)]) == 0
    assert f"reel evaluate {judged}" in capsys.readouterr().out


def saved(root: Path, steps: int, ended: str | None) -> Path:
    """A run with so many checkpoints."""
    with Run.create(root, AbrTraining(), stage="abr", name="abr-ppo", seed=0, tensorboard=False) as run:
        for step in range(steps):
            run.checkpoint(step, {}, {})
        if ended:
            run.mark_ended(ended)
        return run.folder


def test_only_what_nobody_needs_is_removed_and_only_when_asked(
    run_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done, stopped = saved(run_root, 3, "done"), saved(run_root, 3, "stopped")
    nothing, killed, policy = saved(run_root, 0, "failed"), saved(run_root, 0, None), saved(run_root, 0, "failed")
    (policy / "artifacts/policy.safetensors").write_bytes(b"kept")
    damaged = saved(run_root, 0, "failed")
    (damaged / "meta.json").write_text("{")
    before = sorted(run_root.rglob("*"))
    assert main(["runs", "clean", str(run_root)]) == 0
    said = capsys.readouterr().out
    assert sorted(run_root.rglob("*")) == before
    assert said.count("would") == 4
    with Run.open(nothing):  # somebody begins to write to it
        assert main(["runs", "clean", str(run_root), "--yes"]) == 0
    assert not killed.exists()
    assert [path.name for path in RunFolder(done).checkpoints.all()] == ["00003-step-2"]
    assert len(RunFolder(stopped).checkpoints.all()) == 3
    assert [each.exists() for each in (nothing, policy, damaged)] == [True] * 3
    assert not list(run_root.rglob(".removing-*"))


def test_a_damaged_run_is_named_with_its_reason(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(run_root, 1, "done")
    shutil.rmtree(folder / "checkpoints")
    (folder / "meta.json").write_text("[]")
    assert main(["runs", str(run_root)]) == 0
    said = capsys.readouterr().out
    assert "damaged" in said
    assert "does not have schema" in said


@pytest.mark.parametrize("words", [["runs"], ["runs", "clean"]])
def test_a_folder_that_is_not_there_is_told(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, str(tmp_path / "absent")]) == 1
    assert "no folder" in capsys.readouterr().err
