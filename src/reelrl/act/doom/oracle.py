"""A rule that knows where everybody is: how well a scenario can be played.

Each player goes for the intruder that takes the least turning, shoots when it is in line and no bystander stands before
it, and walks towards one that a wall hides. Where the scenario has a gate, the first player works the switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.shared_memory import BYSTANDER, COLUMN, ENEMY, ENEMY_ON_SCREEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_OP, FORWARD, LEFT, _RIGHT, _STRAFE_LEFT, _STRAFE_RIGHT, _ATTACK, _USE = range(len(ACTIONS))
_X, _Y, _ANGLE = (COLUMN[name] for name in ("POSITION_X", "POSITION_Y", "ANGLE"))
_AIM_UNITS, _BESIDE_UNITS = 21.0, 34.0  # from a figure's middle: met, surely missed
_FAR_UNITS = 280.0  # a turn of one step may leave a figure that is farther on either side of the line
_STUCK_UNITS, _SIDESTEPS = 4.0, 6
_WALK_DEGREES = 12.0
_SAME = 1.0


class OracleRule:
    """The players of one match of a scenario."""

    def __init__(self, players: int, scenario: str) -> None:
        self._players = players
        self._gate = scenario == "gate"
        # Where nothing hides anybody, turning round finds somebody.
        self._turns = scenario == "bystanders"
        self.reset()

    def reset(self) -> None:
        """An episode begins."""
        self._steps = 0
        self._where = np.full((self._players, 2), np.inf)
        self._sidesteps = np.zeros(self._players, int)

    def act(self, facts: NDArray[np.float64], sightings: NDArray[np.float64]) -> list[int]:
        """What each player does, by (players, facts) and (players, rows, columns) of the match."""
        self._steps += 1
        seen = sightings[0]
        enemies, bystanders = (seen[seen[:, 0] == kind][:, 2:4] for kind in (ENEMY, BYSTANDER))
        return [
            self._one(player, facts[player], sightings[player], enemies, bystanders) for player in range(self._players)
        ]

    def _one(
        self,
        player: int,
        facts: NDArray[np.float64],
        sightings: NDArray[np.float64],
        enemies: NDArray[np.float64],
        bystanders: NDArray[np.float64],
    ) -> int:
        if self._gate and player == 0:
            return _USE if self._steps % 2 else _NO_OP
        here, angle = facts[[_X, _Y]], facts[_ANGLE]
        shown = sightings[sightings[:, 0] == ENEMY_ON_SCREEN][:, 2:4]
        seen = [each for each in enemies if len(shown) and np.abs(shown - each).max(1).min() < _SAME]
        if seen:
            return self._aim(here, angle, np.array(seen), bystanders)
        if not len(enemies) or self._gate:
            return _NO_OP
        if self._turns:
            return LEFT
        return self._search(player, here, angle, enemies)

    def _aim(
        self, here: NDArray[np.float64], angle: float, seen: NDArray[np.float64], bystanders: NDArray[np.float64]
    ) -> int:
        clear = [each for each in seen if not _in_the_way(here, each, bystanders)]
        if not clear:
            return _NO_OP
        off = np.array([_bearing(here, angle, each) for each in clear])
        nearest = int(np.abs(off).argmin())
        distance = float(np.linalg.norm(clear[nearest] - here))
        if not self._gate and distance > _FAR_UNITS and abs(off[nearest]) < _WALK_DEGREES:
            return FORWARD
        if distance * abs(np.sin(np.radians(off[nearest]))) < _AIM_UNITS and abs(off[nearest]) < 90:
            return _ATTACK
        return LEFT if off[nearest] > 0 else _RIGHT

    def _search(self, player: int, here: NDArray[np.float64], angle: float, enemies: NDArray[np.float64]) -> int:
        """When no enemy is on the screen: towards one that a wall hides."""
        # Players share the work: the second goes for the enemy that is second nearest, where there is one.
        order = np.argsort(np.linalg.norm(enemies - here, axis=1))
        target = enemies[order[min(player % 2, len(order) - 1)]]
        if self._sidesteps[player]:
            self._sidesteps[player] -= 1
            return _STRAFE_LEFT if (self._steps // 40) % 2 else _STRAFE_RIGHT
        off = _bearing(here, angle, target)
        if abs(off) > _WALK_DEGREES:
            self._where[player] = np.inf
            return LEFT if off > 0 else _RIGHT
        if np.abs(self._where[player] - here).max() < _STUCK_UNITS:
            self._sidesteps[player] = _SIDESTEPS
        self._where[player] = here
        return FORWARD


def _bearing(here: NDArray[np.float64], angle: float, there: NDArray[np.float64]) -> float:
    """Degrees to turn, left is positive."""
    wanted = np.degrees(np.arctan2(there[1] - here[1], there[0] - here[0]))
    return float((wanted - angle + 180) % 360 - 180)


def _in_the_way(here: NDArray[np.float64], there: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Whether one of the others stands between."""
    if not len(others):
        return False
    way = there - here
    distance = float(np.linalg.norm(way))
    along = (others - here) @ way / max(distance, 1e-9)
    beside = np.abs((others - here) @ np.array([-way[1], way[0]]) / max(distance, 1e-9))
    return bool(((along > 0) & (along < distance + _BESIDE_UNITS) & (beside < _BESIDE_UNITS)).any())
