from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from reelrl import __version__
from reelrl.cli import main as cli
from reelrl.cli import options
from reelrl.errors import ContentError, EncoderError
from reelrl.storage.files import writable_folder
from tests.waiting import HANG_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[argparse.Namespace]]:
    """Adds a command made of a function; returns the list of arguments it was run with."""

    def add(name: str, action: Callable[[], Any] = lambda: None) -> list[argparse.Namespace]:
        calls: list[argparse.Namespace] = []
        module = ModuleType(f"command_{len(sys.modules)}", "Does a thing.")

        def add_arguments(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--batch-size", type=int, default=1)
            options.add_settings(parser)
            options.add_seed(parser)
            options.add_json(parser)

        def run(args: argparse.Namespace) -> Any:
            calls.append(args)
            return action()

        module.add_arguments, module.run = add_arguments, run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, name, (module.__name__, f"does {name}"))
        return calls

    return add


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_can_explain_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*name.split(), "--help"]) == 0
    assert f"usage: reel {name}" in capsys.readouterr().out


def test_commands_are_in_alphabetical_order() -> None:
    assert list(cli.COMMANDS) == sorted(cli.COMMANDS)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, (_, text) in cli.COMMANDS.items():
        assert name in out
        assert text in out


@pytest.mark.slow
def test_help_imports_no_command_and_nothing_heavy() -> None:
    """Which is why it answers at once; how soon that is depends on the machine."""
    program = (
        "import sys; from reelrl.cli.main import main; main(['--help'])\n"
        "ours = ['reelrl', *(f'reelrl.{m}' for m in 'names foreign_imports errors file_trust runs runs.interrupts cli "
        "cli.main'.split())]\n"
        "heavy = ('torch', 'numba', 'cv2', 'av', 'matplotlib', 'stable_baselines3', 'transformers', 'vizdoom')\n"
        "print([m for m in sys.modules if m in heavy or m.startswith('reelrl') and m not in ours], file=sys.stderr)"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert child.stderr == "[]\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"reel {__version__}\n"


def test_without_a_command_the_list_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: reel COMMAND" in captured.err


def test_a_mistyped_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docter"]) == 2
    assert capsys.readouterr().err == "error  no command 'docter'; did you mean 'doctor'?\n"


def test_two_word_commands(
    command: Callable[..., list[argparse.Namespace]], capsys: pytest.CaptureFixture[str]
) -> None:
    abr, plain = command("train abr"), command("train")
    assert cli.main(["train", "abr", "--seed", "4"]) == 0
    assert cli.main(["train"]) == 0
    assert ([args.seed for args in abr], len(plain)) == ([4], 1)


def test_a_group_lists_its_members(
    command: Callable[..., list[argparse.Namespace]], capsys: pytest.CaptureFixture[str]
) -> None:
    command("train abr")
    command("train superblock")
    assert cli.main(["train", "--help"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  train superblock +does train superblock$", out, re.MULTILINE)
    assert "doctor" not in out
    assert cli.main(["train"]) == 2
    capsys.readouterr()
    assert cli.main(["train", "abbr"]) == 2
    assert capsys.readouterr().err == "error  no command 'train abbr'; did you mean 'abr'?\n"


@pytest.mark.parametrize("spelling", ["--batch_size=4", "--batch-size=4"])
def test_options_may_have_underscores(command: Callable[..., list[argparse.Namespace]], spelling: str) -> None:
    calls = command("thing")
    assert cli.main(["thing", spelling, "--set", "a_b=c_d", "--set=e_f=--g_h"]) == 0
    assert (calls[0].batch_size, calls[0].set) == (4, ["a_b=c_d", "e_f=--g_h"])


def test_what_follows_two_dashes_stays() -> None:
    assert cli.with_dashes(["--a_b", "--", "--c_d"]) == ["--a-b", "--", "--c_d"]


@pytest.mark.parametrize("arguments", [["--sead", "1"], ["--see", "1"], ["--seed", "-1"], ["--seed", "x"], ["extra"]])
def test_wrong_usage_exits_2(
    command: Callable[..., list[argparse.Namespace]], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    calls = command("thing")
    assert cli.main(["thing", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error  ")
    assert said.endswith("; reel thing --help lists the options\n")
    assert said.count("\n") == 1
    assert calls == []


def test_an_unknown_option_is_told_with_the_nearest(
    command: Callable[..., list[argparse.Namespace]], capsys: pytest.CaptureFixture[str]
) -> None:
    command("thing")
    assert cli.main(["thing", "--sead=1"]) == 2
    assert capsys.readouterr().err.startswith(
        "error  unrecognized arguments: --sead=1; did you mean --seed; reel thing"
    )


def test_what_is_refused_leaves_no_folder_that_it_made(
    command: Callable[..., list[argparse.Namespace]], tmp_path: Path
) -> None:
    def refuse() -> None:
        writable_folder(tmp_path / "old")
        (writable_folder(tmp_path / "used") / "kept").touch()
        writable_folder(tmp_path / "runs" / "new")
        raise ContentError("no clip")

    (tmp_path / "old").mkdir()
    command("thing", refuse)
    assert cli.main(["thing"]) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "old", "used"]


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ContentError("no clip"), 1, "error  no clip\n"),
        (EncoderError("it stopped", "out of range"), 1, "error  it stopped\n       encoder: out of range\n"),
        (KeyboardInterrupt(), 130, "stopped  interrupted by Ctrl+C or SIGTERM\n"),
    ],
)
def test_errors_of_ours_are_one_line_without_a_traceback(
    command: Callable[..., list[argparse.Namespace]],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    message: str,
) -> None:
    command("thing", lambda: fail(error))
    assert cli.main(["thing"]) == status
    assert capsys.readouterr().err == message


def test_other_errors_keep_their_traceback(command: Callable[..., list[argparse.Namespace]]) -> None:
    command("thing", lambda: fail(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["thing"])


def test_a_commands_status_is_the_exit_status(command: Callable[..., list[argparse.Namespace]]) -> None:
    command("thing", lambda: 1)
    assert cli.main(["thing"]) == 1


WAIT = """
import sys, types
from reelrl.cli import main as cli
module = types.ModuleType("waiting")
module.add_arguments = lambda parser: None
module.run = lambda args: (print("ready", flush=True), sys.stdin.read())
sys.modules["waiting"] = module
cli.COMMANDS["wait"] = ("waiting", "")
sys.exit(cli.main(["wait"]))
"""


@pytest.mark.parametrize("asked_by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_exits_130_with_one_line(asked_by: signal.Signals) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WAIT], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(asked_by)
        assert child.wait(HANG_S) == 130
        assert child.stderr.read() == "stopped  interrupted by Ctrl+C or SIGTERM\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = "import sys; from reelrl.cli.main import main; sys.exit(main(['--help']))"
    reading, writing = os.pipe()
    os.close(reading)
    child = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert child.stderr == ""


@pytest.mark.parametrize("former", sorted(cli.ALIASES))
def test_a_former_name_works_and_says_what_to_type(former: str, capsys: pytest.CaptureFixture[str]) -> None:
    today = cli.ALIASES[former].split()
    assert cli.without_aliases([*former.split(), "DATA", "--seed", "3"]) == [*today, "DATA", "--seed", "3"]
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"`reel {former}` is now `reel {cli.ALIASES[former]}`" in err
    assert cli.without_aliases(today) == today
    assert not capsys.readouterr().err
    assert " ".join(today[:2]) in cli.COMMANDS


def test_a_former_option_may_stand_anywhere_and_hold_its_value() -> None:
    typed = ["train", "location", "DATA", "--seed", "3", "--eyes=runs/0001"]
    assert cli.without_aliases(typed) == [*typed[:-1], "--frame-reader=runs/0001"]
    other = ["train", "doom", "--eyes", "runs/0001"]
    assert cli.without_aliases(other) == other


def test_an_interrupt_while_a_text_is_executed_exits_130_too(tmp_path: Path) -> None:
    """As while a module of dataclasses is imported: Python, started with -m, would end itself by SIGINT instead."""
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "from reelrl.cli import main\n"
        "main._dispatch = lambda arguments: exec('raise KeyboardInterrupt')\n"
        "sys.exit(main.main([]))\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.run([sys.executable, "-m", "interrupted"], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert child.returncode == 130
