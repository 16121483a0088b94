"""Pictures of a match: the players' views, and beside them the map with everybody on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.doom.shared_memory import BYSTANDER, COLUMN, ENEMY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from reelrl.act.doom.env import VizDoomCoopParallelEnv
    from reelrl.act.doom.scenarios.floor_plan import Floor

    Picture = NDArray[np.uint8]

_PAPER, _FLOOR, _PLAYER = (250, 249, 246), (222, 218, 208), (60, 60, 60)
_COLOURS = {ENEMY: (210, 30, 30), BYSTANDER: (40, 90, 220)}
_ZOOM = 4  # of views
_DOT_UNITS, _NOSE_UNITS, _EDGE_UNITS = 16.0, 44.0, 24.0


class MatchFilm:
    """Pictures of matches on a map of these floors."""

    def __init__(self, floors: Iterable[Floor]) -> None:
        self._floors = list(floors)
        corners = np.array([floor[:4] for floor in self._floors], float)
        self._west, self._south = corners[:, :2].min(0) - _EDGE_UNITS
        east, north = corners[:, 2:].max(0) + _EDGE_UNITS
        self._units = max(east - self._west, north - self._south)

    def picture(self, env: VizDoomCoopParallelEnv) -> Picture:
        """All views, enlarged, and the map; of an environment with sightings."""
        views = env.render().repeat(_ZOOM, 0).repeat(_ZOOM, 1)
        return np.concatenate([views, self.map_picture(*env.ground_truth, side=len(views))], axis=1)

    def map_picture(self, facts: NDArray[np.float64], sightings: NDArray[np.float64], side: int) -> Picture:
        """North is up; players are dark and have a nose, intruders are red and bystanders blue."""
        picture = np.full((side, side, 3), _PAPER, np.uint8)
        for west, south, east, north, *_ in self._floors:
            (left, bottom), (right, top) = self._at(west, south, side), self._at(east, north, side)
            picture[round(top) : round(bottom), round(left) : round(right)] = _FLOOR
        for kind, _, x, y, _ in sightings[0][np.isin(sightings[0, :, 0], list(_COLOURS))]:
            self._dot(picture, x, y, _COLOURS[int(kind)])
        for x, y, angle in facts[:, [COLUMN[name] for name in ("POSITION_X", "POSITION_Y", "ANGLE")]]:
            ahead = _NOSE_UNITS * np.exp(1j * np.radians(angle))
            for share in (0.0, 0.5, 1.0):
                self._dot(picture, x + share * ahead.real, y + share * ahead.imag, _PLAYER, 1 - 0.6 * share)
        return picture

    def _at(self, x: float, y: float, side: int) -> tuple[float, float]:
        """Column and row."""
        scale = side / self._units
        return (x - self._west) * scale, side - (y - self._south) * scale

    def _dot(self, picture: Picture, x: float, y: float, colour: tuple[int, int, int], size: float = 1.0) -> None:
        column, row = self._at(x, y, len(picture))
        rows, columns = np.ogrid[: len(picture), : len(picture)]
        radius = size * _DOT_UNITS * len(picture) / self._units
        picture[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = colour
