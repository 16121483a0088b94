"""`reel collect doom` from start to finish, and ended in all the ways that end a long job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reelrl.act.doom import engines
from reelrl.act.recording.reader import MatchData
from reelrl.cli.main import main
from tests.act.makers import engine_of
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SHORT = ("--players", "2", "--seconds", "3", "--video", "lossless")


@pytest.fixture
def collecting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that collects many matches in `tmp_path / "data"`, once the first of them is there."""
    words = [sys.executable, "-m", "reelrl.cli.main", "collect", "doom", "--matches", "99", *SHORT]
    process = subprocess.Popen(
        [*words, "-o", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("match "):
            break
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def players_of(pid: int) -> list[int]:
    """The players of the match that a process is playing, once they are there."""
    found: list[int] = []

    def there() -> bool:
        files = Path(f"/proc/{pid}/task").glob("*/children")
        found[:] = [int(child) for file in files for child in file.read_text().split()]
        return len(found) == 2 and all(len(engines.states(child)) >= 2 for child in found)

    until(there, "no match was on")
    return found


def unfinished(data: Path) -> list[Path]:
    return list((data / "matches").glob(".unfinished-*"))


def test_matches_are_collected_continued_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(tmp_path / "data")
    assert main(["collect", "doom", "--matches", "1", "-o", data, *SHORT]) == 0
    told = capsys.readouterr().out
    assert "0 of 1 matches there" in told
    assert "done   1 matches" in told
    assert "26 moments x 2 views" in told
    assert "players by place" in told
    assert main(["collect", "doom", "--matches", "2", "-o", data, *SHORT, "--jobs", "2"]) == 0
    told = capsys.readouterr().out
    assert "1 of 2 matches there" in told
    assert "haunted_rooms-0000" not in told
    assert main(["collect", "doom", "--check", data]) == 0
    assert "8 " in (told := capsys.readouterr().out)
    assert "2 matches (2 train)" in told


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], "say how many and where to"),
        (["--matches", "0", "-o", "x"], "--matches 0: give 1 or more"),
        (["--matches", "1", "-o", "x", "--players", "0"], "players is 0"),
        (["--matches", "1", "-o", "x", "--map", "nowhere"], "there is no scenario 'nowhere'"),
        (["--matches", "1", "-o", "x", "--video", "gif"], "video is 'gif'; choose from av1, lossless"),
        (["--check", "x"], "x holds no matches"),
    ],
)
def test_wrong_words_are_told_and_nothing_is_written(
    words: list[str], answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["collect", "doom", *words]) == 1
    assert answer in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_after_kill_9_the_same_command_completes_the_set(collecting: subprocess.Popen[str], tmp_path: Path) -> None:
    players = players_of(collecting.pid)
    collecting.kill()
    collecting.wait()
    data = tmp_path / "data"
    kept = len(MatchData.open(data).matches)
    assert kept >= 1
    until(lambda: not any(engines.states(player) for player in players))
    assert main(["collect", "doom", "--matches", str(kept + 1), "-o", str(data), *SHORT]) == 0
    assert unfinished(data) == []
    assert len(MatchData.open(data).matches) == kept + 1
    assert main(["collect", "doom", "--check", str(data)]) == 0


def test_ctrl_c_keeps_the_match_that_is_being_played(collecting: subprocess.Popen[str], tmp_path: Path) -> None:
    players_of(collecting.pid)
    before = len(MatchData.open(tmp_path / "data").matches)
    collecting.send_signal(signal.SIGINT)
    told, _ = collecting.communicate(timeout=HANG_S)
    assert collecting.returncode == 130
    assert "the same command goes on" in told
    assert len(MatchData.open(tmp_path / "data").matches) >= before
    assert unfinished(tmp_path / "data") == []


def test_a_second_ctrl_c_ends_at_once_and_leaves_no_half_match(
    collecting: subprocess.Popen[str], tmp_path: Path
) -> None:
    players = players_of(collecting.pid)
    collecting.send_signal(signal.SIGINT)
    assert collecting.stdout is not None
    assert any(line.startswith("stop ") for line in collecting.stdout)
    collecting.send_signal(signal.SIGINT)
    assert collecting.wait(HANG_S) == 130
    until(lambda: not any(engines.states(player) for player in players))
    assert unfinished(tmp_path / "data") == []
    list(MatchData.open(tmp_path / "data").check())


def test_a_match_that_lost_a_player_is_played_again(collecting: subprocess.Popen[str], tmp_path: Path) -> None:
    os.kill(engine_of(players_of(collecting.pid)[1]), signal.SIGKILL)
    assert collecting.stdout is not None
    told = next(line for line in collecting.stdout if line.startswith("again"))
    assert "player_" in told
    name = told.split()[1]
    assert name in (match.id for match in MatchData.open(tmp_path / "data").matches)


def test_a_full_disk_is_told_and_finished_matches_stay(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = small_disk / "data"  # a match of half a megabyte fits, two do not
    words = ["--players", "2", "--seconds", "2", "--video", "lossless", "--resolution", "RES_160X120"]
    assert main(["collect", "doom", "--matches", "3", "-o", str(data), *words]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert unfinished(data) == []
    assert len(list(MatchData.open(data).check())) == 3 + 2, "one match and the map"
