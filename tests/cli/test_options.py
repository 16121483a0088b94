from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.parallel import WorkPlace

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Settings:
    ALIASES: ClassVar[dict[str, str]] = {"quantiser": "qp"}

    preset: int = 8
    qp: int = 30
    note: str = ""


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    return parser.parse_args(arguments)


def test_single_values_win_over_named_settings_and_those_over_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("preset: 10\nqp: 40\n")
    args = parse("--config", str(path), "--set", "qp=50")
    assert options.settings_from(args, Settings(note="kept")) == Settings(preset=10, qp=50, note="kept")


def test_nothing_given_changes_nothing() -> None:
    assert options.settings_from(parse(), Settings()) == Settings()


def test_a_former_key_is_taken_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.settings_from(parse("--set", "quantiser=50"), Settings()) == Settings(qp=50)
    assert capsys.readouterr().err.startswith("note   --set quantiser is now qp;")
    assert options.settings_from(parse("--set", "qp=50"), Settings()) == Settings(qp=50)
    assert not capsys.readouterr().err


def test_a_mistyped_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'presett'; did you mean 'preset'\?"):
        options.settings_from(parse("--set", "presett=1"), Settings())


def test_lines_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.line("run", "runs/0007-minigop-sac", "seed 3", "SVT-AV1 4.1.0")
    output.line("step", "20 000 / 100 000", "reward 41.2")
    output.line("stopped", "step 1040")
    output.next_command("reel evaluate runs/0007-minigop-sac")
    assert capsys.readouterr().out == (
        "run    runs/0007-minigop-sac      seed 3   SVT-AV1 4.1.0\n"
        "step   20 000 / 100 000           reward 41.2\n"
        "stopped step 1040\n"
        "next   reel evaluate runs/0007-minigop-sac\n"
    )


def test_the_next_command_can_be_typed_where_the_shell_does_not_find_reel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / ".venv" / "bin" / "reel"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    output.next_command("reel clips")
    assert capsys.readouterr().out == "next   .venv/bin/reel clips\n"


@pytest.mark.parametrize(("arguments", "jobs"), [([], 0), (["--jobs", "0"], 0), (["--workers", "3"], 3)])
def test_jobs_are_all_cores_unless_said_otherwise(arguments: list[str], jobs: int) -> None:
    parser = argparse.ArgumentParser()
    options.add_workers(parser)
    assert parser.parse_args(arguments).jobs == jobs


@pytest.mark.parametrize("wrong", ["-1", "many"])
def test_jobs_that_cannot_be_are_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    options.add_workers(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([f"--jobs={wrong}"])
    assert f"{wrong!r} is no number of workers; give 1 or more, or 0" in capsys.readouterr().err


def test_a_cluster_takes_all_its_cores_unless_a_number_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_RAY", "host:6379")
    parser = argparse.ArgumentParser()
    options.add_workers(parser, 1)
    args = parser.parse_args([])
    assert args.ray is None
    assert options.work_place(args, parser) == WorkPlace("host:6379")
    assert args.jobs == 0
    args = parser.parse_args(["--ray", "auto", "--workers", "3", "--deadline", "60"])
    assert options.work_place(args, parser) == WorkPlace("auto", 60.0)
    assert args.jobs == 3
    args = parser.parse_args(["--ray="])
    assert options.work_place(args, parser) == WorkPlace()
    assert args.jobs == 1
