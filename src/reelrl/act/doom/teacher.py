"""A rule that knows no more than its player can see: who is on the screen, where, and how far the way ahead is free.

What it does can be told from the picture, so a net that sees the picture can learn it. The oracle walks towards
enemies behind walls; this rule looks for them: it turns where one stands to see everybody, and else walks until a wall
is near, then turns left until the way is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom.oracle import FORWARD, LEFT, OracleRule
from reelrl.act.doom.scenarios import find as scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.act.doom.scenarios.floor_plan import Floor

_CELL = 8  # map units; the sides of all floors are multiples of it
_NEAR_UNITS = 96.0
_STEP_UNITS = 4.0
_BODY_UNITS = 20.0  # from a player's middle to its side, and a little more


class TeacherRule(OracleRule):
    """The players of one match of a scenario."""

    def __init__(self, players: int, name: str, sides: int = 1) -> None:
        super().__init__(players, name, sides)
        floors = getattr(scenario.OURS.get(name), "floors", None)
        self._free = None if floors is None else free_cells(list(floors()))

    def _search(self, player: int, here: NDArray[np.float64], angle: float, enemies: NDArray[np.float64]) -> int:
        del player, enemies
        if self._free is None:
            return LEFT
        return FORWARD if free_ahead(self._free, here, angle, _NEAR_UNITS) else LEFT


def free_cells(floors: list[Floor]) -> NDArray[np.bool_]:
    """(columns, rows) of the map: where one can stand."""
    free = np.zeros((max(floor.east for floor in floors) // _CELL, max(floor.north for floor in floors) // _CELL), bool)
    for floor in floors:
        free[floor.west // _CELL : floor.east // _CELL, floor.south // _CELL : floor.north // _CELL] = True
    return free


def free_ahead(free: NDArray[np.bool_], here: NDArray[np.float64], angle: float, units: float) -> bool:
    """Whether a body can go so far straight on."""
    ahead = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    aside = np.array([-ahead[1], ahead[0]])
    way = here + np.arange(_STEP_UNITS, units + 1, _STEP_UNITS)[:, None] * ahead
    cells = (np.concatenate([way + side * aside for side in (-_BODY_UNITS, 0.0, _BODY_UNITS)]) // _CELL).astype(int)
    inside = (cells >= 0).all(1) & (cells < free.shape).all(1)
    return bool(inside.all()) and bool(free[cells[:, 0], cells[:, 1]].all())
