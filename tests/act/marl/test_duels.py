"""Side A against side B: which pairs play, what their matches say, the page."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from reelrl.act.doom.teams import PlayedEpisode
from reelrl.act.marl import duel_page, duels
from tests.report.test_page import outside_sources

if TYPE_CHECKING:
    from pathlib import Path

FACTS = {"scenario": "duel", "players": 2, "matches": 5, "command": "reel evaluate doom duel --episodes 5"}


def episodes(*returns: float) -> list[PlayedEpisode]:
    return [PlayedEpisode(seed, value, 175, 3, int(3 - value)) for seed, value in enumerate(returns)]


PLAYED = {
    ("chance", "chance"): episodes(0, 0, 1, -1, 0),
    ("chance", "oracle"): episodes(-5, -4, -4, -5, -4),
    ("oracle", "chance"): episodes(5, 5, 4, 4, 5),
    ("oracle", "oracle"): episodes(1, -2, 0, 0, 2),
}


def test_without_a_trained_team_every_rule_plays_every_rule_and_itself() -> None:
    pairs = duels.pairs([])
    assert len(pairs) == len(set(pairs)) == len(duels.RULES) ** 2
    assert ("sweep", "sweep") in pairs


def test_a_trained_team_is_side_a_against_everybody() -> None:
    pairs = duels.pairs(["runs/1", "runs/1:black"], ["runs/1/artifacts/earlier.safetensors", "chance"])
    assert {one for one, _ in pairs} == {"runs/1", "runs/1:black"}
    assert [other for one, other in pairs if one == "runs/1"] == [
        *duels.RULES,
        "runs/1",
        "runs/1:black",
        "runs/1/artifacts/earlier.safetensors",
    ]


def test_rows_and_records_hold_every_pair(tmp_path: Path) -> None:
    rows = {row.pair: row for row in duels.summarise(PLAYED)}
    assert list(rows) == list(PLAYED)
    best = rows["oracle", "chance"]
    assert best.ahead.mean == pytest.approx(4.6)
    assert (best.frags, best.episodes) == (3, 5)
    assert 4 <= best.ahead.low < 4.6 < best.ahead.high <= 5
    duels.write_records(tmp_path, PLAYED, list(rows.values()), FACTS)
    with (tmp_path / "episodes.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 20
    assert {key: lines[5][key] for key in ("side A", "side B", "reward")} == {
        "side A": "chance",
        "side B": "oracle",
        "reward": "-5",
    }
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["pairs"] == [row.record() for row in rows.values()]


def test_the_page_is_a_table_of_side_a_against_side_b(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    duel_page.write_page(path, duels.summarise(PLAYED), FACTS)
    page = path.read_text(encoding="utf-8")
    assert "<h1>Oracle is ahead of chance by 4.60 per match, the most of all pairs</h1>" in page
    assert page.index("Side A against side B") < page.index("+4.60") < page.index("What this does not show")
    assert outside_sources(page) == []


def test_fewer_than_five_matches_give_a_word_and_no_interval(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    duel_page.write_page(path, duels.summarise({pair: few[:3] for pair, few in PLAYED.items()}), FACTS | {"matches": 3})
    page = path.read_text(encoding="utf-8")
    assert "with fewer than 5 a mean is all that can be said" in page
    assert "<td>+4.67</td>" in page
    assert "nan" not in page


@pytest.mark.slow
def test_pairs_play_and_the_same_again() -> None:
    match = {**duels.match_of("duel"), "max_steps": 12, "observation_size": [12, 16]}
    assert match["sides"] == 2
    played = [duels.play_all(match, [("chance", "oracle")], episodes=1, seed=4) for _ in range(2)]
    assert played[0] == played[1]
    assert played[0]["chance", "oracle"][0].steps == 12
