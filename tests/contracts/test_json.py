"""Every command that tells something tells it to programs too: `--json` prints one JSON value and nothing else."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from reelrl.cli import main as cli
from reelrl.cli import output
from tests.cli.train.trainings import TRAININGS

WITHOUT = {"completion"}
"""Prints a script for a shell, which is for a program already."""
TELLING = ("output.as_json(", "training.conclude(", "bd_rates.hand_over(")


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints on stdout with `--json`, read strictly."""
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - WITHOUT))
def test_every_command_takes_json_and_prints_some(name: str) -> None:
    module = importlib.import_module(cli.COMMANDS[name][0])
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    assert "--json" in parser.format_help()
    assert any(call in inspect.getsource(module) for call in TELLING)


def test_what_is_printed_for_people_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with output.json_alone(True):
        output.line("part", "encode")
        print("a table")
        output.as_json({"psnr": 40.0})
    said = capsys.readouterr()
    assert json.loads(said.out) == {"psnr": 40.0}
    assert said.err == "part   encode\na table\n"
    with output.json_alone(False):
        output.line("part", "encode")
    assert capsys.readouterr() == ("part   encode\n", "")


def test_figures_that_json_has_no_word_for_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    output.as_json({"psnr": float("inf"), "rows": [(float("nan"), 1.5, 2)], "path": Path("a")})
    assert json.loads(capsys.readouterr().out) == {"psnr": None, "rows": [[None, 1.5, 2]], "path": "a"}


def test_a_command_inside_a_command_prints_as_its_own_words_say(capsys: pytest.CaptureFixture[str]) -> None:
    with output.json_alone(True), output.json_alone(False):
        output.as_json([])
    assert capsys.readouterr() == ("", "[]\n")


def test_looking_around_prints_one_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists where there are many of a kind, otherwise an object."""
    (tmp_path / "runs").mkdir()
    traces = str(tmp_path / "traces")
    assert told(["traces", "make", "mobile", "--count", "2", "-o", traces], capsys)["wrote"] == traces
    assert len(told(["traces", traces], capsys)) == 2
    assert told(["runs", str(tmp_path / "runs")], capsys) == []
    assert told(["runs", "clean", str(tmp_path / "runs")], capsys) == []
    assert {"task", "critic"} <= told(["init", "doom", str(tmp_path / "team")], capsys)["files"].keys()
    assert "problems" in told(["check", "doom"], capsys)


@pytest.mark.slow
def test_a_training_prints_its_run_as_the_list_of_runs_does(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)
    trained = told(TRAININGS["abr"].command(run_root), capsys)
    assert (trained["stage"], trained["state"]) == ("abr", "done")
    assert told(["runs", str(run_root)], capsys) == [trained]
    page = str(tmp_path / "report")
    assert told(["report", trained["folder"], "-o", page], capsys)["page"].startswith(page)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(set(TRAININGS) - {"abr"}))
def test_trainings_of_all_kinds_print_their_run(kind: str, run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = told(TRAININGS[kind].command(run_root), capsys)
    assert (trained["stage"], trained["state"]) == (kind, "done")
