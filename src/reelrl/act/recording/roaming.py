"""A team that knows the map and walks all over it, so that recorded matches show everybody everywhere.

Each player has a goal by its own dice: a place by lot, or now and then the place where a teammate is, as teams do. It
walks there, looks around, shoots at enemies that it sees, and when it is stuck it shakes itself free. A squad follows
its first player: `squad` is the share of the others' walks that lead to where that one is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from reelrl import seeding
from reelrl.act.doom.env import ACTIONS
from reelrl.act.recording.routes import Routes

if TYPE_CHECKING:
    from reelrl.act.recording.labels import MatchRow
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.routes import Point

_NO_OP, _FORWARD, _LEFT, _RIGHT, _STRAFE_LEFT, _STRAFE_RIGHT, _ATTACK, _USE = range(len(ACTIONS))

_JOIN_A_MATE = 0.4  # share of goals
_SHOOT, _SHOOT_UNITS = 0.5, 288.0  # share of moments in which an enemy on the screen and so near is dealt with
_LOOK_ON_ARRIVAL, _LOOK_ON_THE_WAY = 0.5, 0.01
_LOOK_DECISIONS = (3, 14)  # at 8.75 a second
_ARRIVED = 36.0  # map units
_AIM_DEGREES, _WALK_DEGREES = 6.0, 20.0
_STUCK_DECISIONS, _STUCK_UNITS = 8, 12.0


class RoamingTeam:
    """One roamer per player."""

    def __init__(self, plan: MapPlan, players: int, seed: int, squad: float = 0.0) -> None:
        routes = Routes(plan)
        self._roamers = [_Roamer(plan, routes, player, seed, squad) for player in range(players)]

    def act(self, row: MatchRow) -> list[int]:
        """What each player does until the next moment."""
        return [roamer.act(row) for roamer in self._roamers]


class _Roamer:
    def __init__(self, plan: MapPlan, routes: Routes, player: int, seed: int, squad: float) -> None:
        self._plan, self._routes, self._player, self._squad = plan, routes, player, squad
        self._follows_to = -1  # the place where the squad's first player was when this one set out
        self._random = seeding.stream(seed, "roaming", player)
        self._way: list[Point] = []
        self._pending: list[int] = []  # actions that come before anything else
        self._trail: list[Point] = []  # where it tried to walk lately

    def act(self, row: MatchRow) -> int:
        if not row.alive[self._player]:
            self._way, self._pending, self._trail = [], [], []
            return _NO_OP
        if (aim := self._aim(row)) is not None and self._random.random() < _SHOOT:
            return aim
        if self._pending:
            return self._pending.pop()
        if self._is_stuck():
            return self._shake_free()
        return self._walk(row)

    def _aim(self, row: MatchRow) -> int | None:
        """Turn to the nearest enemy on the screen, or shoot at it."""
        here = row.position[self._player]
        shown = [row.enemies[name][0] for name in row.sees_enemy[self._player]]
        target = min(shown, key=lambda there: math.dist(there, here), default=None)
        if target is None or math.dist(target, here) > _SHOOT_UNITS:
            return None
        off = self._bearing(row, target[0], target[1])
        return _ATTACK if abs(off) < _AIM_DEGREES else _LEFT if off > 0 else _RIGHT

    def _walk(self, row: MatchRow) -> int:
        x, y = row.position[self._player][:2]
        while self._way and math.dist((x, y), self._way[0]) < _ARRIVED:
            self._way.pop(0)
            if not self._way and self._random.random() < _LOOK_ON_ARRIVAL:
                return self._look_around()
        if not self._way or self._is_left_behind(row):
            self._way = self._new_way(row)
            return _NO_OP
        if self._random.random() < _LOOK_ON_THE_WAY:
            return self._look_around()
        off = self._bearing(row, *self._way[0])
        if abs(off) > _WALK_DEGREES:
            return _LEFT if off > 0 else _RIGHT
        self._trail = [*self._trail[1 - _STUCK_DECISIONS :], (x, y)]
        return _FORWARD

    def _new_way(self, row: MatchRow) -> list[Point]:
        here = row.position[self._player]
        reach = self._routes.reachable((here[0], here[1]))
        places = sorted(place for place in reach.by_place if place >= 0)
        now = int(self._plan.place_of(here[0], here[1]))
        mates = [player for player in np.flatnonzero(row.alive) if player != self._player]
        self._follows_to = -1
        if self._squad and self._player and row.alive[0] and self._random.random() < self._squad:
            wanted = self._follows_to = self._place_of_the_first(row)
        elif not self._squad and mates and self._random.random() < _JOIN_A_MATE:
            x, y = row.position[self._random.choice(mates)][:2]
            wanted = int(self._plan.place_of(x, y))
        else:
            others = [place for place in places if place != now] or places
            wanted = int(self._random.choice(others)) if others else -1
        spots = reach.by_place.get(wanted) or next(iter(reach.by_place.values()))
        return reach.way_to(spots[int(self._random.integers(len(spots)))])

    def _is_left_behind(self, row: MatchRow) -> bool:
        """Whether it follows to a place that the squad's first player has left."""
        return self._follows_to >= 0 and bool(row.alive[0]) and self._place_of_the_first(row) != self._follows_to

    def _place_of_the_first(self, row: MatchRow) -> int:
        return int(self._plan.place_of(*row.position[0][:2]))

    def _look_around(self) -> int:
        turn = _LEFT if self._random.random() < 0.5 else _RIGHT
        self._pending = [turn if self._random.random() < 0.8 else _NO_OP] * int(self._random.integers(*_LOOK_DECISIONS))
        return turn

    def _is_stuck(self) -> bool:
        return len(self._trail) == _STUCK_DECISIONS and math.dist(self._trail[0], self._trail[-1]) < _STUCK_UNITS

    def _shake_free(self) -> int:
        """Try what may be a door, step aside, think of something else."""
        side = _STRAFE_LEFT if self._random.random() < 0.5 else _STRAFE_RIGHT
        self._way, self._trail = [], []
        self._pending = [side, side, _FORWARD, side]
        return _USE

    def _bearing(self, row: MatchRow, x: float, y: float) -> float:
        """Degrees to turn, left is positive, from where the player looks to a point."""
        here = row.position[self._player]
        wanted = math.degrees(math.atan2(y - here[1], x - here[0]))
        return (wanted - float(row.angle[self._player]) + 180) % 360 - 180
