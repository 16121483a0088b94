"""A rule that knows where everybody is: how well a scenario can be played.

Each player goes for the intruder that takes the least turning, shoots when it is in line and no bystander stands before
it, and walks towards one that a wall hides. Where the scenario has a gate, the first player works the switch. With two
sides the intruders are the players of the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.shared_memory import BYSTANDER, COLUMN, ENEMY, ENEMY_ON_SCREEN, MATE_ON_SCREEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_OP, FORWARD, LEFT, _RIGHT, _STRAFE_LEFT, _STRAFE_RIGHT, _ATTACK, _USE = range(len(ACTIONS))
_X, _Y, _ANGLE, _DEAD = (COLUMN[name] for name in ("POSITION_X", "POSITION_Y", "ANGLE", "DEAD"))
_AIM_UNITS, _BESIDE_UNITS = 21.0, 34.0  # from a figure's middle: met, surely missed
_FAR_UNITS = 280.0  # a turn of one step may leave a figure that is farther on either side of the line
_STUCK_UNITS, _SIDESTEPS = 4.0, 6
_WALK_DEGREES = 12.0
_SAME = 1.0
_SAME_PLAYER = 32.0  # an engine shows other players where they were a tic ago


class OracleRule:
    """The players of one match of a scenario."""

    def __init__(self, players: int, scenario: str, sides: int = 1) -> None:
        self._players, self._sides = players, sides
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
        enemies, bystanders = (_places(sightings[0], kind) for kind in (ENEMY, BYSTANDER))
        actions = []
        for player in range(self._players):
            shown = _places(sightings[player], ENEMY_ON_SCREEN)
            if self._sides == 2:
                enemies, shown = self._other_side(player, facts), _places(sightings[player], MATE_ON_SCREEN)
            seen = _among(enemies, shown, _SAME if self._sides == 1 else _SAME_PLAYER)
            actions.append(self._one(player, facts[player], enemies, seen, bystanders))
        return actions

    def _other_side(self, player: int, facts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where the living of it are."""
        half = self._players // 2
        others = facts[half:] if player < half else facts[:half]
        living: NDArray[np.float64] = others[others[:, _DEAD] == 0][:, [_X, _Y]]
        return living

    def _one(
        self,
        player: int,
        facts: NDArray[np.float64],
        enemies: NDArray[np.float64],
        seen: NDArray[np.float64],
        bystanders: NDArray[np.float64],
    ) -> int:
        if self._gate and player == 0:
            return _USE if self._steps % 2 else _NO_OP
        here, angle = facts[[_X, _Y]], facts[_ANGLE]
        if len(seen):
            return self._aim(here, angle, seen, bystanders)
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


def _places(sightings: NDArray[np.float64], kind: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = sightings[sightings[:, 0] == kind][:, 2:4]
    return found


def _among(enemies: NDArray[np.float64], shown: NDArray[np.float64], near: float) -> NDArray[np.float64]:
    """The enemies that are on the screen."""
    if not len(enemies) or not len(shown):
        return enemies[:0]
    found: NDArray[np.float64] = enemies[np.abs(shown[None] - enemies[:, None]).max(-1).min(-1) < near]
    return found


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
