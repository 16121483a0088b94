"""`reel evaluate RUN`: the right command for a run of any stage; no evaluation is run here."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.evaluate import words_for_runs
from reelrl.cli.main import COMMANDS, main
from reelrl.cli.train import command as training
from reelrl.errors import ConfigError, RunError
from reelrl.runs.folder import Run
from reelrl.runs.stages import STAGES

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Settings:
    steps: int = 3


def run_of(root: Path, stage: str) -> str:
    with Run.create(root, Settings(), stage=stage, name=stage, seed=0, tensorboard=False) as run:
        return str(run.folder)


def test_the_table_names_every_train_command_and_commands_and_settings_that_are() -> None:
    trained = {words.split()[1] for words in COMMANDS if words.split()[0] in ("train", "pretrain")}
    assert trained == set(STAGES)
    # A fit leaves a file and no run, rules need neither, and embeddings are asked of any weights.
    others = {"evaluate frameqp", "evaluate live", "evaluate embedding"}
    evaluated = {words for words in COMMANDS if words.startswith("evaluate ")} - others
    assert {" ".join(stage.evaluate.split()[:2]) for stage in STAGES.values() if stage.evaluate} == evaluated
    for name, stage in STAGES.items():
        assert stage.evaluate or stage.instead
        assert name == importlib.import_module(COMMANDS[stage.train][0]).STAGE
        module, _, cls = stage.settings.partition(":")
        assert is_dataclass(getattr(importlib.import_module(module), cls))


@pytest.mark.parametrize("stage", [name for name, stage in STAGES.items() if stage.evaluate])
def test_a_run_is_evaluated_by_the_command_of_its_stage(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run_of(tmp_path, stage), run_of(tmp_path, stage)]
    called: list[argparse.Namespace] = []
    module = importlib.import_module(COMMANDS[f"evaluate {stage}"][0])
    monkeypatch.setattr(module, "run", called.append)
    assert main(["evaluate", *runs, "--json"]) == 0
    assert called[0].json
    assert runs in vars(called[0]).values()


def test_a_run_is_found_by_its_number_and_by_its_stage_of_before(tmp_path: Path) -> None:
    run_of(tmp_path, "abr")
    assert words_for_runs(["evaluate", str(tmp_path / "0001")]) == ["evaluate", "abr", str(tmp_path / "0001")]
    before = run_of(tmp_path, "eyes")
    with pytest.raises(ConfigError, match=r"`reel train frame-reader`.*reel train location DATA --frame-reader"):
        words_for_runs(["evaluate", before])


def test_what_is_no_run_is_told_with_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").touch()
    run_of(tmp_path / "runs", "abr")
    answers = {
        "notes": "notes is no run: it is a folder with a.txt; give a run",
        "runs": "runs is no run: it is a folder with the runs 0001-abr; give a run",
        "notes/a.txt": "a.txt is no run: it is a file; give a run",
        "nowhere": "there is no run (a folder with meta.json) there",
    }
    for name, answer in answers.items():
        assert main(["evaluate", str(tmp_path / name)]) == 1
        assert answer in capsys.readouterr().err
    assert main(["evaluate", "abrr"]) == 2
    assert "no command 'evaluate abrr'; did you mean 'abr'?" in capsys.readouterr().err
    assert main(["evaluate", "--help"]) == 0
    assert "evaluate RUN" in capsys.readouterr().out


def test_runs_of_two_stages_and_of_an_unknown_one_are_refused(tmp_path: Path) -> None:
    abr, doom, strange = (run_of(tmp_path, stage) for stage in ("abr", "doom", "chess"))
    with pytest.raises(ConfigError, match=r"of stage abr, .* of stage doom; evaluate them one by one"):
        words_for_runs(["evaluate", abr, doom])
    with pytest.raises(RunError, match="stage 'chess', which this version does not know; it knows superblock, minigop"):
        words_for_runs(["evaluate", strange])


def test_a_run_of_another_stage_is_resumed_by_the_command_that_is_told(tmp_path: Path) -> None:
    doom = run_of(tmp_path, "doom")
    with pytest.raises(ConfigError, match="resume it with: reel train doom --resume"):
        training.resumed(argparse.Namespace(resume=doom), "abr", Settings)
