"""A map as seen from above: walls as lines, and places by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from reelrl.errors import ContentError
from reelrl.storage.plain_data import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    Floats = NDArray[np.float64]
    Colour = tuple[int, int, int]

CELL = 64.0
"""Map units: squares of this size hold one place, the one that is named there most often."""
_GROWTH = 2  # squares around those visited that belong to the same place
REACH = 96.0
"""Map units: a doorway belongs to the nearest place, unless all are farther than this."""
_PAPER, _FLOOR, _SHADE, _WALL, _INK = (250, 249, 246), (232, 230, 224), (230, 120, 40), (70, 70, 80), (60, 60, 60)
_MARGIN = 12


@dataclass(frozen=True, eq=False)
class MapPlan:
    """One map. `walls` are (n, 4) lines x1 y1 x2 y2 that stop a player; `boxes` (places, 4) west south east north."""

    name: str
    walls: Floats
    places: tuple[str, ...]
    boxes: Floats

    def place_of(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Index into `places` of positions, in the shape they come in; -1 outside the map and for NaN."""
        east, north = np.asarray(x, np.float64)[..., None], np.asarray(y, np.float64)[..., None]
        west_side, south_side, east_side, north_side = self.boxes.T
        off_x = np.maximum(0.0, np.maximum(west_side - east, east - east_side))
        off_y = np.maximum(0.0, np.maximum(south_side - north, north - north_side))
        distance = np.hypot(off_x, off_y)
        nearest = distance.argmin(axis=-1)
        near = np.take_along_axis(distance, nearest[..., None], axis=-1)[..., 0] <= REACH
        return np.where(near, nearest, -1)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north of everything."""
        points = np.concatenate([self.walls.reshape(-1, 2), self.boxes.reshape(-1, 2)])
        west, south = points.min(axis=0)
        east, north = points.max(axis=0)
        return float(west), float(south), float(east), float(north)

    def draw(
        self,
        *,
        size: int = 480,
        shades: ArrayLike | None = None,
        dots: Iterable[tuple[float, float, Colour]] = (),
        names: bool = True,
    ) -> NDArray[np.uint8]:
        """The map as a picture, `size` pixels on its longer side, north up.

        `shades` colours each place, from 0 (not at all) to 1; `dots` are x, y and a colour.
        """
        import cv2

        west, south, east, north = self.bounds
        scale = (size - 2 * _MARGIN) / max(east - west, north - south)
        width, height = (round(side * scale) + 2 * _MARGIN for side in (east - west, north - south))
        picture = np.full((height, width, 3), _PAPER, np.uint8)

        def pixel(x: float, y: float) -> tuple[int, int]:
            return round((x - west) * scale) + _MARGIN, round((north - y) * scale) + _MARGIN

        strengths = np.zeros(len(self.places)) if shades is None else np.clip(np.asarray(shades, np.float64), 0, 1)
        for box, strength in zip(self.boxes, strengths, strict=True):
            colour = np.array(_FLOOR) * (1 - strength) + np.array(_SHADE) * strength
            cv2.rectangle(picture, pixel(box[0], box[3]), pixel(box[2], box[1]), colour.tolist(), -1)
        for x1, y1, x2, y2 in self.walls:
            cv2.line(picture, pixel(x1, y1), pixel(x2, y2), _WALL, 1 if size < 300 else 2, cv2.LINE_AA)
        for name, box in zip(self.places, self.boxes, strict=True) if names else ():
            _write(picture, name, pixel((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), size)
        for x, y, colour in dots:
            cv2.circle(picture, pixel(x, y), max(3, size // 90), colour, -1, cv2.LINE_AA)
        return picture

    def to_json(self) -> str:
        places = [{"name": name, "box": box.tolist()} for name, box in zip(self.places, self.boxes, strict=True)]
        return json.dumps({"name": self.name, "places": places, "walls": self.walls.tolist()}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, source: object) -> Self:
        """A plan from its file; `source` is named where the text is none."""
        try:
            data: dict[str, Any] = parse_object(text)
            places = tuple(str(place["name"]) for place in data["places"])
            boxes = np.array([place["box"] for place in data["places"]], np.float64).reshape(len(places), 4)
            walls = np.array(data["walls"], np.float64).reshape(-1, 4)
            return cls(str(data["name"]), walls, places, boxes)
        except (ValueError, KeyError, TypeError) as error:
            raise ContentError(f"{source} is no map ({error!r}); collect the matches anew") from error


def _write(picture: NDArray[np.uint8], text: str, middle: tuple[int, int], size: int) -> None:
    """Write a name around a point, a word to a line."""
    import cv2

    font, scale = cv2.FONT_HERSHEY_SIMPLEX, size / 1300
    words = text.split()
    for line, word in enumerate(words):
        (width, height), _ = cv2.getTextSize(word, font, scale, 1)
        left, low = (
            middle[0] - width // 2,
            middle[1] + height // 2 + round((line - (len(words) - 1) / 2) * 1.7 * height),
        )
        cv2.putText(picture, word, (left, low), font, scale, _INK, 1, cv2.LINE_AA)


@dataclass(frozen=True, eq=False)
class VisitedPlan(MapPlan):
    """A map known by where players have been: X-Ego's tables name the place of every position, and draw no walls.

    Places are squares seen from above, so rooms over each other count as the one that is visited more.
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
        """From positions (n, 2 or 3) and the names of their places; those without a name count for nothing."""
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
