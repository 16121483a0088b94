"""A teacher does only what can be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats

from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.oracle import OracleRule
from reelrl.act.doom.scenarios import hiders
from reelrl.act.doom.shared_memory import COLUMN, ENEMY, ENEMY_ON_SCREEN, FACTS, SIGHTING_COLUMNS
from reelrl.act.doom.teacher import TeacherRule, free_ahead, free_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

PILLAR = (160.0, 224.0)  # west and east, or south and north, of the one in the south-west
SOMEWHERE = floats(20.0, hiders.SIDE - 20.0)


def facts(x: float, y: float, angle: float) -> NDArray[np.float64]:
    """Of one player."""
    row = np.zeros((1, len(FACTS)))
    row[0, [COLUMN["POSITION_X"], COLUMN["POSITION_Y"], COLUMN["ANGLE"]]] = x, y, angle
    return row


def sightings(*rows: tuple[int, float, float]) -> NDArray[np.float64]:
    """(kind, x, y) of each."""
    table = np.zeros((1, 8, len(SIGHTING_COLUMNS)))
    for number, (kind, x, y) in enumerate(rows):
        table[0, number] = kind, number, x, y, 0
    return table


@given(SOMEWHERE, SOMEWHERE, SOMEWHERE, SOMEWHERE, floats(0, 360))
def test_where_an_enemy_hides_changes_nothing(x: float, y: float, to_x: float, to_y: float, angle: float) -> None:
    """The oracle goes there; who only sees cannot."""
    here = facts(384, 384, angle)
    one, other = (TeacherRule(1, "hiders").act(here, sightings((ENEMY, *place))) for place in ((x, y), (to_x, to_y)))
    assert one == other
    assert ACTIONS[one[0]] in {"forward", "turn left"}


@pytest.mark.parametrize("scenario", ["bystanders", "hiders", "gate"])
@given(x=floats(300, 500), y=floats(400, 500))
def test_on_the_screen_both_rules_do_the_same(scenario: str, x: float, y: float) -> None:
    seen = sightings((ENEMY, x, y), (ENEMY_ON_SCREEN, x, y))
    here = facts(384, 300, 90)
    assert TeacherRule(1, scenario).act(here, seen) == OracleRule(1, scenario).act(here, seen)


def test_it_walks_until_a_wall_is_near_then_turns_left() -> None:
    nobody = sightings((ENEMY, 96, 96))
    south_of_the_pillar = [facts(192, y, 90) for y in (30, 100)]
    acts = [ACTIONS[TeacherRule(1, "hiders").act(here, nobody)[0]] for here in south_of_the_pillar]
    assert acts == ["forward", "turn left"]


def test_where_the_map_is_not_known_it_turns() -> None:
    acted = TeacherRule(1, "bystanders").act(facts(384, 384, 0), sightings((ENEMY, 96, 96)))
    assert [ACTIONS[each] for each in acted] == ["turn left"]


@given(SOMEWHERE, SOMEWHERE, floats(0, 360))
def test_a_shorter_way_is_free_wherever_a_longer_one_is(x: float, y: float, angle: float) -> None:
    free = free_cells(list(hiders.floors()))
    here = np.array([x, y])
    assert free_ahead(free, here, angle, 40.0) or not free_ahead(free, here, angle, 90.0)


def test_pillars_and_the_outer_wall_are_in_the_way() -> None:
    free = free_cells(list(hiders.floors()))
    assert not free[int(PILLAR[0]) // 8, int(PILLAR[0]) // 8]
    before = np.array([PILLAR[0] - 60, sum(PILLAR) / 2])
    assert not free_ahead(free, before, 0.0, 96.0)
    assert free_ahead(free, before, 90.0, 96.0)
    assert not free_ahead(free, np.array([40.0, 40.0]), 180.0, 96.0)
