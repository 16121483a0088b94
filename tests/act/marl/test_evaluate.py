"""Teams that played: the table, the records, the page."""

from __future__ import annotations

import csv
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.act.doom.teams import PlayedEpisode
from reelrl.act.marl.evaluate import ALL_RUNS, summarise, write_records
from reelrl.act.marl.page import write_page
from tests.browser import PROGRAM, Chromium
from tests.report.test_page import outside_sources

if TYPE_CHECKING:
    from pathlib import Path

RUNS = ["runs/0001-doom-mappo", "runs/0002-doom-mappo"]
FACTS: dict[str, Any] = {
    "scenario": "nine_rooms",
    "players": 2,
    "matches": 5,
    "trained teams": "runs/0001-doom-mappo (seed 0), runs/0002-doom-mappo (seed 1)",
    "command": "reel evaluate doom runs/0001 runs/0002 --episodes 4",
}


def episodes(*returns: float) -> list[PlayedEpisode]:
    return [PlayedEpisode(seed, value, 100, int(value), 1) for seed, value in enumerate(returns)]


PLAYED = {
    "chance": episodes(1.0, 2.0, 0.0, 3.0, 1.5),
    "sweep": episodes(20.0, 24.0, 19.0, 25.0, 22.0),
    RUNS[0]: episodes(11.0, 13.0, 10.5, 12.5, 11.75),
    RUNS[1]: episodes(8.0, 9.5, 7.0, 11.0, 8.875),
}


def test_rows_pair_every_team_with_chance_in_the_same_match() -> None:
    rows = {row.team: row for row in summarise(PLAYED, RUNS)}
    assert list(rows) == [*PLAYED, ALL_RUNS]
    assert rows["chance"].above_chance is None
    assert rows["sweep"].above_chance is not None
    assert rows["sweep"].above_chance.mean == pytest.approx(20.5)
    assert rows["sweep"].above_chance.low >= 19  # what the matches themselves differ by does not count
    assert rows[ALL_RUNS].episodes == 10
    assert rows[ALL_RUNS].returns.mean == pytest.approx((rows[RUNS[0]].returns.mean + rows[RUNS[1]].returns.mean) / 2)


def test_records_hold_every_match_and_what_they_add_up_to(tmp_path: Path) -> None:
    rows = summarise(PLAYED, RUNS)
    write_records(tmp_path, PLAYED, rows, FACTS)
    with (tmp_path / "episodes.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["team"], line["seed"], float(line["reward"])) for line in lines] == [
        (team, str(each.seed), each.reward) for team, played in PLAYED.items() for each in played
    ]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["facts"] == FACTS
    assert summary["teams"] == {row.team: row.record() for row in rows}


def written(folder: Path, played: dict[str, list[PlayedEpisode]], trained: list[str], **facts: Any) -> str:
    path = folder / "index.html"
    write_page(path, played, summarise(played, trained), trained, FACTS | facts)
    return path.read_text(encoding="utf-8")


def test_a_page_begins_with_the_verdict_against_the_stronger_baseline(tmp_path: Path) -> None:
    page = written(tmp_path, PLAYED, RUNS)
    assert "<h1>Sweep beats the trained teams by 11.69 points of return per match</h1>" in page
    assert page.index("<h1>") < page.index('class="forest"') < page.index("<table")
    assert "0001-doom-mappo" in page
    assert outside_sources(page) == []


@pytest.mark.parametrize(("matches", "words"), [(1, "1 test match"), (4, "4 test matches")])
def test_fewer_than_five_matches_give_a_word_and_no_interval(tmp_path: Path, matches: int, words: str) -> None:
    played = {team: played[:matches] for team, played in PLAYED.items() if team != RUNS[1]}
    page = written(tmp_path, played, RUNS[:1], matches=matches)
    mean = sum(each.reward for each in played[RUNS[0]]) / matches
    assert f"<h1>0001-doom-mappo: return {mean:.2f} in {words}</h1>" in page
    assert "with fewer than 5 a mean is all that can be said" in page
    assert "nan" not in page
    assert f"<td>{mean:.2f}</td>" in page
    rows = {row.team: row for row in summarise(played, RUNS[:1])}
    assert rows[RUNS[0]].record()["return"] == [pytest.approx(mean), None, None]


@pytest.mark.browser
@pytest.mark.skipif(not PROGRAM and not os.environ.get("CI"), reason="no Chromium here")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1300])
def test_a_page_fits_phone_and_desk(tmp_path: Path, width: int, dark: bool) -> None:
    written(tmp_path, PLAYED, RUNS)
    with Chromium(width, 900, dark=dark) as browser:
        browser.open((tmp_path / "index.html").as_uri())
        browser.wait_for("document.readyState === 'complete' && !!document.querySelector('.forest')")
        wide = browser.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.screenshot(tmp_path / "page.png")
    assert wide == [width, width]
    assert (ground == "rgb(18, 20, 24)") == dark
