"""Ways over a map: a grid of spots where a player fits, and the shortest way from one to another."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.act.recording.maps import MapPlan

    Point = tuple[float, float]
    Spot = tuple[int, int]

_STEP = 24.0
_CLEARANCE = 20.0  # from a wall to the middle of a player, who is 32 wide
_NEIGHBOURS = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]


class Routes:
    """Where one can walk on a map."""

    def __init__(self, plan: MapPlan) -> None:
        west, south, east, north = plan.bounds
        self._origin = np.array([west, south])
        self._columns = int((east - west) / _STEP) + 1
        self._rows = int((north - south) / _STEP) + 1
        x = west + (np.arange(self._columns) + 0.5) * _STEP
        y = south + (np.arange(self._rows) + 0.5) * _STEP
        self._free = _distance_to_walls(x, y, plan.walls) >= _CLEARANCE
        self._places = plan.place_of(*np.meshgrid(x, y, indexing="ij"))

    def reachable(self, start: Point) -> Reach:
        """All ways that lead from here, as far as they go."""
        first = self._nearest_free(start)
        came_from: dict[Spot, Spot] = {first: first}
        queue = deque([first])
        while queue:
            spot = queue.popleft()
            for right, up in _NEIGHBOURS:
                other = (spot[0] + right, spot[1] + up)
                # A diagonal step needs both of its corners, or a shoulder would catch on a wall.
                if other not in came_from and self._all_free([other, (other[0], spot[1]), (spot[0], other[1])]):
                    came_from[other] = spot
                    queue.append(other)
        return Reach(self, came_from)

    def place(self, spot: Spot) -> int:
        return int(self._places[spot])

    def point(self, spot: Spot) -> Point:
        x, y = self._origin + (np.array(spot) + 0.5) * _STEP
        return float(x), float(y)

    def is_straight(self, start: Spot, end: Spot) -> bool:
        """Whether one can walk from spot to spot in a line."""
        count = 2 * max(abs(start[0] - end[0]), abs(start[1] - end[1])) + 1
        xs, ys = (np.linspace(a, b, count).round().astype(int) for a, b in zip(start, end, strict=True))
        return bool(self._free[xs, ys].all())

    def _all_free(self, spots: list[Spot]) -> bool:
        return all(0 <= x < self._columns and 0 <= y < self._rows and self._free[x, y] for x, y in spots)

    def _nearest_free(self, point: Point) -> Spot:
        free = np.argwhere(self._free)
        x, y = free[np.linalg.norm(self._origin + (free + 0.5) * _STEP - point, axis=1).argmin()]
        return int(x), int(y)


class Reach:
    """The spots that can be reached from one, by place, and the way to each."""

    def __init__(self, routes: Routes, came_from: dict[Spot, Spot]) -> None:
        self._routes, self._came_from = routes, came_from
        self.by_place: dict[int, list[Spot]] = {}
        for spot in came_from:
            self.by_place.setdefault(routes.place(spot), []).append(spot)

    def way_to(self, goal: Spot) -> list[Point]:
        """Points to walk to one after the other, each in a straight line from the one before."""
        spots = [goal]
        while (before := self._came_from[spots[-1]]) != spots[-1]:
            spots.append(before)
        spots.reverse()
        way, index = [], 0
        while index < len(spots) - 1:
            ahead = range(len(spots) - 1, index, -1)
            index = next((far for far in ahead if self._routes.is_straight(spots[index], spots[far])), index + 1)
            way.append(self._routes.point(spots[index]))
        return way


def _distance_to_walls(
    x: NDArray[np.floating], y: NDArray[np.floating], walls: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(columns, rows) from each grid point to the nearest wall."""
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    nearest = np.full(points.shape[:2], np.inf)
    for x1, y1, x2, y2 in walls:
        start, along = np.array([x1, y1]), np.array([x2 - x1, y2 - y1])
        share = np.clip((points - start) @ along / max(along @ along, 1e-9), 0, 1)
        nearest = np.minimum(nearest, np.linalg.norm(points - start - share[..., None] * along, axis=-1))
    return nearest
