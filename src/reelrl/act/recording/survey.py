"""Maps measured in the engine: where the walls are, and places for maps that come without names.

A player takes steps up to 24 units high and needs 56 of headroom; a line between two floors that offers less is a wall
to it. A closed door (its ceiling lies on its floor) is none: whoever stands before it can open it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.act.doom.match import Match
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.settings import VZCoopConfig
from reelrl.act.recording.maps import MapPlan
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEP, _HEADROOM = 24, 56
_CELLS = 5  # of the grid, along the longer side of a map without names


def survey(map_name: str) -> MapPlan:
    """The plan of a scenario, of ours or not. Starts one engine for a second."""
    with TemporaryDirectory(prefix="reelrl-survey-") as folder:
        path = Path(folder) / "sectors.json"
        config = VZCoopConfig(config_path=map_name, num_players=1, screen_resolution="RES_160X120")
        Match(config, seed=0, survey=path).close()
        sectors = json.loads(path.read_text())
    if not sectors:
        raise ContentError(f"the engine tells no sectors of {map_name}; use another scenario")
    walls = walls_of(sectors)
    ours = scenario.OURS.get(map_name)
    boxes: dict[str, Any] = ours.places() if ours and hasattr(ours, "places") else grid_places(sectors)
    return MapPlan(plain_name(map_name), walls, tuple(boxes), np.array(list(boxes.values()), np.float64))


def plain_name(map_name: str) -> str:
    """What matches and files on this map are called: a scenario's name, without folder and suffix."""
    return Path(map_name).stem


def walls_of(sectors: list[dict[str, Any]]) -> Floats:
    """Lines that stop a player, each once."""
    sides: dict[tuple[float, ...], list[tuple[float, float]]] = defaultdict(list)
    blocking = set()
    for sector in sectors:
        for *line, blocks in sector["lines"]:
            ends = sorted([tuple(line[:2]), tuple(line[2:])])
            key = (*ends[0], *ends[1])
            sides[key].append((sector["floor"], sector["ceiling"]))
            if blocks:
                blocking.add(key)
    walls = [line for line, rooms in sides.items() if line in blocking or not _passable(rooms)]
    return np.array(walls, np.float64).reshape(-1, 4)


def _passable(rooms: list[tuple[float, float]]) -> bool:
    floors = [floor for floor, _ in rooms]
    ceilings = [ceiling for floor, ceiling in rooms if ceiling > floor]
    return max(floors) - min(floors) <= _STEP and min(ceilings, default=math.inf) - max(floors) >= _HEADROOM


def inside(sectors: list[dict[str, Any]], x: Floats, y: Floats) -> NDArray[np.bool_]:
    """Which points have a floor. Lines between two floors count twice and so cancel: what is left is the outline."""
    has_floor = np.zeros(np.broadcast(x, y).shape, bool)
    for sector in sectors:
        for x1, y1, x2, y2, _ in sector["lines"]:
            if y1 != y2:
                crossing = x1 + (y - y1) * (x2 - x1) / (y2 - y1)
                has_floor ^= (np.minimum(y1, y2) <= y) & (y < np.maximum(y1, y2)) & (x < crossing)
    return has_floor


def grid_places(sectors: list[dict[str, Any]]) -> dict[str, tuple[float, float, float, float]]:
    """Squares over the map that hold floor, named like fields of a chess board from the south-west: "A1"."""
    points = np.array([line[:4] for sector in sectors for line in sector["lines"]], np.float64).reshape(-1, 2)
    (west, south), (east, north) = points.min(axis=0), points.max(axis=0)
    side = max(east - west, north - south) / _CELLS
    places = {}
    inset = (np.arange(8) + 0.5) / 8 * side
    for column in range(math.ceil((east - west) / side - 1e-9)):
        for row in range(math.ceil((north - south) / side - 1e-9)):
            left, low = west + column * side, south + row * side
            x, y = np.meshgrid(left + inset, low + inset)
            if inside(sectors, x, y).any():
                places[f"{chr(ord('A') + column)}{row + 1}"] = (left, low, left + side, low + side)
    return places
