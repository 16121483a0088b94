"""`reel compare atari`: players side by side in their games, what they leave, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from reelrl.act.atari.race import summary
from reelrl.act.atari.race_tables import markdown
from reelrl.cli.main import main
from reelrl.runs.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
SMALL = "numbers+net.hidden=[8]+epsilon_frames=100"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def compare(out: Path, *more: str) -> int:
    games = ["--games", "gym:CartPole-v1", "--seeds", "2", "--frames", "150", "-o", str(out)]
    return main(["compare", "atari", *games, *more])


def test_players_play_side_by_side_and_each_goes_on_alone(
    tmp_path: Path, run_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "race.json"
    assert compare(out, "--contestants", SMALL, "--together", "1", "--keep", str(run_root)) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [(row["source"], row["seed"], row["frames"]) for row in rows] == [
        ("gym:CartPole-v1", n, 150) for n in (0, 1)
    ]
    assert all(len(row["curve"]) == 19 and row["episodes"] > 2 for row in rows)
    assert "| gym:CartPole-v1 |" in out.with_suffix(".md").read_text()
    said = capsys.readouterr().out
    assert "frames/s" in said
    before = out.read_bytes()
    assert compare(out, "--contestants", SMALL) == 0  # all are whole: nothing is played again
    assert json.loads(out.read_text())["rows"] == json.loads(before)["rows"]
    kept = sorted(run_root.iterdir())
    assert len(kept) == 2
    assert main(["train", "atari", "--resume", str(kept[1]), "--frames", "160", "--device", "cpu"]) == 0
    saved = RunFolder(kept[1]).checkpoints.latest()
    assert saved is not None
    assert saved.step == 160


@pytest.mark.long
def test_contestants_at_once_play_as_they_do_one_after_the_other(tmp_path: Path) -> None:
    rows = []
    for number, more in enumerate(([], ["--at-once"])):
        out = tmp_path / f"{number}.json"
        assert compare(out, "--contestants", f"chance,{SMALL},{SMALL}+lamda=0.5", "--together", "2", *more) == 0
        rows.append([{**row, "frames_per_s": 0} for row in json.loads(out.read_text())["rows"]])
    assert len(rows[0]) == 6
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--contestants", "pixel"], "contestant 'pixel' is unknown; did you mean 'pixels'"),
        (["--contestants", "chance", "--games", "ale:Breakot"], "did you mean 'Breakout'"),
        (["--contestants", "numbers", "--games", "gym:CartPole-v1,gym:Acrobot-v1"], r"[2, 3] actions"),
        (["--contestants", "chance", "--seeds", "0"], "with 0 seeds; give one or more each"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(tmp_path / "race.json", *words) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("text", ["[]", "{}", "nothing"])
def test_a_file_of_others_is_not_taken_for_results(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "race.json").write_text(text)
    assert compare(tmp_path / "race.json", "--contestants", "chance") == 1
    assert "holds no results of ours" in capsys.readouterr().err
    assert (tmp_path / "race.json").read_text() == text


def test_a_curve_is_the_means_of_its_stretches_and_late_is_the_last_fifth() -> None:
    figures = summary([(4, 1.0), (5, 3.0), (60, 7.0), (81, 2.0), (100, 4.0)], 100, 100)
    assert figures["curve"] == [2.0, *[None] * 10, 7.0, *[None] * 4, 2.0, *[None] * 2, 4.0]
    assert figures["late"] == [2.0, 4.0]
    assert figures["episodes"] == 5
    stopped = summary([(4, 1.0), (20, 3.0)], 100, 20)
    assert stopped["curve"] == [1.0, None, None, 3.0]
    assert stopped["late"] == [3.0]


def test_a_table_has_the_return_of_each_contestant_and_counts_who_is_above_chance() -> None:
    rows = [
        {"contestant": name, "source": "ale:Pong", "seed": seed, "stretch": 5, "curve": curve, "late": curve[-2:]}
        for name, seed, curve in (
            ("pixels", 0, [1.0, 2.0, 4.0]),
            ("chance", 0, [1.0, 1.0, 1.0]),
            ("pixels", 1, [1.0, 0.0, 0.0]),
        )
    ]
    assert "| Pong | 1.0 [1.0, 1.0] | 1.5 [-17.6, 20.6] |" in markdown(rows)
    assert "| above chance |  | 1 of 2 |" in markdown(rows)
    assert "| Pong | 1.0 [1.0, 1.0] | 1.0 [1.0, 1.0] |" in markdown([row for row in rows if row["seed"] == 0], (1, 5))
