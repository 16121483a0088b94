"""The map beside the views shows who is where."""

from __future__ import annotations

import numpy as np
import pytest

from reelrl.act.doom.match_film import MatchFilm
from reelrl.act.doom.scenarios.floor_plan import Floor
from reelrl.act.doom.shared_memory import BYSTANDER, COLUMN, ENEMY, ENEMY_ON_SCREEN, FACTS, SIGHTING_COLUMNS

HALL = Floor(0, 0, 400, 400, "GRAY1", "FLAT5_4")


def facts(x: float, y: float) -> np.ndarray:
    row = np.zeros((1, len(FACTS)))
    row[0, [COLUMN["POSITION_X"], COLUMN["POSITION_Y"]]] = x, y
    return row


def sightings(kind: int, x: float, y: float) -> np.ndarray:
    rows = np.zeros((1, 3, len(SIGHTING_COLUMNS)))
    rows[0, 0] = kind, 1, x, y, 0
    return rows


@pytest.mark.parametrize(("kind", "channel"), [(ENEMY, 0), (BYSTANDER, 2)])
def test_a_figure_is_where_it_stands_in_its_own_colour(kind: int, channel: int) -> None:
    """North is up and east is right."""
    picture = MatchFilm([HALL]).map_picture(facts(200, 200), sightings(kind, 380, 380), side=100).astype(int)
    rows, columns = np.nonzero(picture[..., channel] - picture[..., 2 - channel] > 100)
    assert rows.mean() < 15
    assert columns.mean() > 85


def test_what_is_on_a_screen_is_not_drawn_twice_and_a_player_looks_ahead() -> None:
    film = MatchFilm([HALL])
    seen = film.map_picture(facts(200, 200), sightings(ENEMY_ON_SCREEN, 100, 100), side=100)
    assert np.array_equal(seen, film.map_picture(facts(200, 200), np.zeros((1, 3, len(SIGHTING_COLUMNS))), side=100))
    dark = np.nonzero(seen.max(-1) < 100)
    assert dark[1].max() - 50 > 50 - dark[1].min(), "angle 0 is east"
