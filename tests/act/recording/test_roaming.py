"""A squad follows its first player; without one nobody leads."""

from __future__ import annotations

import numpy as np
import pytest

from reelrl.act.recording.labels import MatchRow
from reelrl.act.recording.roaming import RoamingTeam
from tests.act.location.written_matches import PLAN

PLAYERS = 3


def row(first: tuple[float, float], alive: bool = True) -> MatchRow:
    position = np.array([[*first, 0], [50, 50, 0], [150, 50, 0]], np.float64)
    nobody = np.zeros((PLAYERS, PLAYERS), bool)
    living = np.array([alive, True, True])
    return MatchRow(0, position, np.zeros(3), np.full(3, 100.0), living, np.zeros(3), {}, nobody, (frozenset(),) * 3)


def goals(team: RoamingTeam, moment: MatchRow) -> list[int]:
    ways = [roamer._new_way(moment)[-1] for roamer in team._roamers]
    return [int(PLAN.place_of(*way)) for way in ways]


def test_a_squad_goes_where_its_first_player_is() -> None:
    team = RoamingTeam(PLAN, PLAYERS, seed=1, squad=1.0)
    for first, place in (((150.0, 150.0), 3), ((50.0, 150.0), 2)):
        assert goals(team, row(first))[1:] == [place, place]
    follower = team._roamers[1]
    assert not follower._is_left_behind(row((50.0, 150.0)))
    assert follower._is_left_behind(row((150.0, 150.0)))
    assert not follower._is_left_behind(row((150.0, 150.0), alive=False))


@pytest.mark.parametrize("squad", [0.0, 0.5])
def test_goals_are_by_the_seed_and_elsewhere_too(squad: float) -> None:
    one, again = (RoamingTeam(PLAN, PLAYERS, seed=2, squad=squad) for _ in range(2))
    found = [goals(one, row((150.0, 150.0))) for _ in range(30)]
    assert found == [goals(again, row((150.0, 150.0))) for _ in range(30)]
    assert {each[1] for each in found} > {3}
    assert not any(roamer._follows_to >= 0 for roamer in (RoamingTeam(PLAN, PLAYERS, seed=2)._roamers))
