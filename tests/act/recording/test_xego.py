"""X-Ego's layout: a small tree in that form, with real mp4s, is read like matches of our own."""

from __future__ import annotations

import csv
import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.act.recording.reader import MatchData
from reelrl.act.recording.xego import XegoData, open_matches
from reelrl.cli.main import main
from reelrl.content.write.film import write_film
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from pathlib import Path

RATE, SECONDS = 4, 12
# Three places side by side, 400 units each; every view is painted in the colour of the place its player is in.
PLACES = {"Ramp": (200, 30, 30), "Middle": (30, 200, 30), "Tunnel": (30, 30, 200)}
ROUNDS = {1: "train", 2: "train", 3: "val", 4: "test"}
PLAYERS = {"7001": "t", "7002": "t", "8001": "ct", "8002": "ct"}
OFFSET_S = {"7001": 0.0, "7002": 1.5, "8001": 0.5, "8002": -0.5}
DEATH_S = {"8002": 8.0}  # the others live to the end
FIRST_TICK = 1000


def x_at(player: str, seconds: float) -> float:
    """Players walk to and fro through all places, each with a start of its own."""
    return 20 + abs((seconds * 150 + 300 * list(PLAYERS).index(player)) % 2300 - 1150)


def place_at(player: str, seconds: float) -> str:
    return list(PLACES)[int(x_at(player, seconds) // 400)]


def write_round(folder: Path, number: int, player: str) -> None:
    end_s = DEATH_S.get(player, SECONDS)
    table = folder / "trajectory" / "match-a" / player / f"round_{number}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["tick_norm", "tick", "game_sec", "name", "side", "X", "Y", "Z", "place", "health"])
        for tick in range(int(end_s * 64)):
            seconds = tick / 64
            where = (f"{x_at(player, seconds):.3f}", "50.0", "0.0", place_at(player, seconds))
            writer.writerow(
                [tick, FIRST_TICK + tick, f"{seconds:.3f}", 'A "player", named so', PLAYERS[player], *where, 90]
            )
    count = int((end_s + OFFSET_S[player]) * RATE)
    times = [max(0.0, index / RATE - OFFSET_S[player]) for index in range(count)]
    pictures = [np.full((48, 48, 3), PLACES[place_at(player, seconds)], np.uint8) for seconds in times]
    write_film(folder / "video_306x306_4fps" / "match-a" / player / f"round_{number:02d}.mp4", pictures, RATE)


def write_tree(root: Path) -> Path:
    """One map with four rounds of four players."""
    folder = root / "de_small"
    for number in ROUNDS:
        for player in PLAYERS:
            write_round(folder, number, player)
    offsets = {
        player: {f"round_{number:02d}": {"offset_sec": offset, "video_fps": 30} for number in ROUNDS}
        for player, offset in OFFSET_S.items()
    }
    (folder / "time_offset.json").write_text(json.dumps({"match-a": offsets}))
    lines = [f"{index},{split},match-a,{number}" for index, (number, split) in enumerate(ROUNDS.items())]
    (folder / "match_round_partitioned.csv").write_text("\n".join(["index,split,match_id,round_number", *lines]))
    return root


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("xego"))


@pytest.fixture
def data(written: Path) -> XegoData:
    found = open_matches(written)
    assert isinstance(found, XegoData)
    return found


def test_rounds_are_matches_with_the_split_they_were_given(data: XegoData) -> None:
    assert {info.id: info.split for info in data.matches} == {
        f"match-a-round_{number:02d}": split for number, split in ROUNDS.items()
    }
    assert {(info.map, info.players, info.frames) for info in data.matches} == {("de_small", 4, SECONDS * RATE)}
    assert data.rows_per_second == RATE
    assert not data.left_out


def test_labels_say_who_lived_and_where_at_each_pictures_time(data: XegoData) -> None:
    labels = data.match("match-a-round_02").labels
    assert labels.team[0].tolist() == [0, 0, 1, 1]
    assert labels.alive[:, :3].all()
    assert labels.alive[:, 3].sum() == DEATH_S["8002"] * RATE
    assert not np.isfinite(labels.position[~labels.alive]).any()
    for row in range(0, len(labels), 7):
        for number, player in enumerate(PLAYERS):
            if labels.alive[row, number]:
                assert labels.position[row, number, 0] == pytest.approx(x_at(player, row / RATE), abs=0.01)


def test_the_plan_calls_positions_by_the_names_in_the_tables(data: XegoData) -> None:
    plan = data.map("de_small")
    assert plan.places == ("Middle", "Ramp", "Tunnel")
    x = np.array([200.0, 600.0, 1000.0, 9000.0, np.nan])
    assert plan.place_of(x, np.full(5, 50.0)).tolist() == [1, 0, 2, -1, -1]
    assert plan.draw(size=200).shape[2] == 3
    with pytest.raises(ConfigError, match="de_small"):
        data.map("de_smal")


def test_pictures_are_those_of_the_rows_whenever_a_video_began(data: XegoData) -> None:
    match, plan = data.match("match-a-round_03"), data.map("de_small")
    colours = np.array([PLACES[name] for name in plan.places])
    labels, agreed = match.labels, []
    for player in range(4):
        rows = np.flatnonzero(labels.alive[:, player])[::-3]
        middle = match.frames(player, rows)[:, 24, 24].astype(int)
        shown = np.abs(middle[:, None] - colours).sum(-1).argmin(1)
        there = plan.place_of(*labels.position[rows, player, :2].T)
        agreed += (shown == there).tolist()
    assert np.mean(agreed) > 0.9  # at a border a square of the plan is of one place only
    (dead,) = match.frames(3, [len(labels) - 1])  # the last picture there is
    assert not dead[:15, :10].any()  # no map in the corner
    assert dead[24, 24].any()
    with pytest.raises(ConfigError, match="rows 0 to 47"):
        match.frames(0, [48])


@pytest.mark.slow
def test_a_net_is_trained_and_evaluated_on_it(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["encoder={model_type: cnn, freeze_backbone: true, embed_dim: 16}", "samples={frames: 2, stride: 2}"]
    settings += ["net.hidden_dim=16", "net.proj_dim=16", "net.fused_agent_dim=16"]
    changes = [word for each in settings for word in ("--set", each)]
    kept = ["--embeddings", str(tmp_path / "kept")]
    command = ["train", "location", str(written), "--epochs", "1", "--output-dir", str(tmp_path), *kept]
    assert main([*command, *changes]) == 0
    run = str(next(tmp_path.glob("0001-*")))
    capsys.readouterr()
    assert main(["evaluate", "location", run, *kept, "-o", str(tmp_path / "found")]) == 0
    assert "prior" in capsys.readouterr().out


def test_a_frame_reader_cannot_learn_where_nobody_tells_who_is_on_screen(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    assert main(["train", "frame-reader", str(written), "--output-dir", str(tmp_path)]) == 1
    assert "does not tell where its players look" in capsys.readouterr().err


def test_a_round_that_lacks_something_is_left_out_and_told(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    videos = copy / "de_small" / "video_306x306_4fps" / "match-a"
    (videos / "7001" / "round_01.mp4").unlink()
    data = XegoData(copy)
    assert data.left_out == {"match-a-round_01": "player 7001 has no video of it"}
    assert len(data.matches) == 3
    shutil.rmtree(videos)
    with pytest.raises(ContentError, match="no round that can be used; match-a-round_01: player 7001 has no video"):
        XegoData(copy)


def test_what_is_missing_is_told_with_what_it_is_for(written: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    (copy / "de_small" / "match_round_partitioned.csv").unlink()
    with pytest.raises(ContentError, match=r"needs match_round_partitioned\.csv or labels/contrastive\.csv"):
        XegoData(copy)
    (copy / "de_small" / "time_offset.json").unlink()
    with pytest.raises(ContentError, match="nobody knows when the videos begin"):
        XegoData(copy)


def test_other_folders_are_ours_or_none(tmp_path: Path) -> None:
    with pytest.raises(ContentError):
        open_matches(tmp_path)
    with pytest.raises(ContentError):
        MatchData.open(tmp_path)
