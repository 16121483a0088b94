"""A map known by where players have been: X-Ego's tables name the place of every position, and draw no walls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from reelrl.act.recording.maps import MapPlan
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

CELL = 64.0
"""Map units: squares of this size hold one place, the one that is named there most often."""
_GROWTH = 2  # squares around those visited that belong to the same place


@dataclass(frozen=True, eq=False)
class VisitedPlan(MapPlan):
    """Places by squares seen from above, so rooms over each other count as the one that is visited more.

    `boxes` are where nine in ten of a place's positions are, for pictures; they may overlap.
    """

    cells: NDArray[np.int64]
    """[rows, columns], from south and west: numbers of places, -1 where nobody goes."""
    corner: tuple[float, float]
    """West and south of the first cell."""

    def place_of(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        east, north = np.asarray(x, np.float64), np.asarray(y, np.float64)
        known = np.isfinite(east) & np.isfinite(north)
        column = np.floor((np.where(known, east, 0) - self.corner[0]) / CELL).astype(np.int64)
        row = np.floor((np.where(known, north, 0) - self.corner[1]) / CELL).astype(np.int64)
        rows, columns = self.cells.shape
        inside = known & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        return np.where(inside, self.cells[np.where(inside, row, 0), np.where(inside, column, 0)], -1)

    @classmethod
    def of(cls, name: str, position: NDArray[np.float32], named: NDArray[np.str_]) -> Self:
        """From positions (n, 2 or 3) and the names of their places; nameless ones count for nothing."""
        there = np.isfinite(position[:, :2]).all(1) & (named != "")
        if not there.any():
            raise ContentError(f"no position on map {name} has the name of a place; places cannot be learned from it")
        places, number = np.unique(named[there], return_inverse=True)
        points = position[there, :2].astype(np.float64)
        corner = points.min(0) - (_GROWTH + 0.5) * CELL
        column, row = np.floor((points - corner) / CELL).astype(np.int64).T
        votes = np.zeros((row.max() + 1 + _GROWTH, column.max() + 1 + _GROWTH, len(places)), np.int64)
        np.add.at(votes, (row, column, number), 1)
        cells = np.where(votes.any(-1), votes.argmax(-1), -1)
        for _ in range(_GROWTH):
            cells = _grown(cells)
        boxes = np.array(
            [np.quantile(points[number == each], (0.05, 0.95), axis=0).ravel() for each in range(len(places))]
        )
        return cls(name, np.zeros((0, 4)), tuple(places.tolist()), boxes, cells, (float(corner[0]), float(corner[1])))


def _grown(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Empty squares take the place of a neighbour."""
    padded = np.pad(cells, 1, constant_values=-1)
    sides = np.stack([padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1]])
    return np.where(cells >= 0, cells, sides.max(0))
