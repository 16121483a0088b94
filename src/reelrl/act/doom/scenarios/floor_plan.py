"""A level from rectangles: floors to stand on and things that stand on them, as the text that the engine reads.

Floors that share an edge are open to each other; every other edge is a wall. The engine works out the rest when it
loads the map, so no editor and no compiler is needed.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reelrl.act.doom.scenarios import wad


class Floor(NamedTuple):
    """A rectangle one can stand on: a room or a doorway. Sides in map units; a player is 32 wide."""

    west: int
    south: int
    east: int
    north: int
    wall: str
    floor: str
    ceiling: int = 128
    """0 is closed: a gate, until it is opened by its `tag`."""
    tag: int = 0
    opens: int = 0
    """The tag of the gate that is opened by whoever uses a wall of this floor."""


class Thing(NamedTuple):
    """A player's start, an enemy, a medikit: the number under which map editors know it, and where it stands."""

    number: int
    x: int
    y: int
    angle: int = 0
    arg0: int = 0


def lumps(level: str, actors: str, floors: Iterable[Floor], things: Iterable[Thing]) -> list[wad.Lump]:
    """A scenario's WAD, as lumps."""
    return [
        ("MAPINFO", level.encode()),
        ("DECORATE", actors.encode()),
        ("MAP01", b""),
        ("TEXTMAP", map_text(list(floors), things).encode()),
        ("ENDMAP", b""),
    ]


def map_text(floors: list[Floor], things: Iterable[Thing]) -> str:
    """The map in the engine's text format."""
    corners = sorted({(x, y) for f in floors for x, y in product((f.west, f.east), (f.south, f.north))})
    edges: dict[
        tuple[int, int], list[int]
    ] = {}  # from corner to corner -> the floor to its right, and that to its left
    for index, floor in enumerate(floors):
        for start, end in _outline(floor, corners):
            edges.setdefault((end, start) if (end, start) in edges else (start, end), []).append(index)
    lines: list[str] = []
    sides: list[str] = []
    for (start, end), (right, *left) in edges.items():
        both = [floors[each] for each in (right, *left)]
        lines.append(_block("linedef", v1=start, v2=end, sidefront=len(sides), **_line_kind(len(sides), both)))
        sides += [_block("sidedef", sector=each, **_wall(floors[each], both)) for each in (right, *left)]
    return "\n".join(
        [
            'namespace = "zdoom";',
            *(_block("vertex", x=x, y=y) for x, y in corners),
            *lines,
            *sides,
            *(_block("sector", **_sector(floor)) for floor in floors),
            *(_block("thing", **_thing(thing)) for thing in things),
        ]
    )


_SECTOR: dict[str, int | str] = {"heightfloor": 0, "textureceiling": "CEIL3_5", "lightlevel": 208}
_GATE = "BIGDOOR2"
_DOOR_RAISE, _GATE_SPEED, _GATE_OPEN_TICS = 12, 64, 70
_EVERYWHERE = ("coop", "single", "dm", "skill1", "skill2", "skill3", "skill4", "skill5")


def _outline(floor: Floor, corners: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """A floor's edges as pairs of corner numbers, clockwise, cut wherever another floor's corner touches them."""
    west, south, east, north = floor[:4]
    path: list[tuple[int, int]] = []
    path += [(x, y) for x, y in corners if x == west and south <= y < north]
    path += [(x, y) for x, y in corners if y == north and west <= x < east]
    path += [(x, y) for x, y in reversed(corners) if x == east and south < y <= north]
    path += [(x, y) for x, y in reversed(corners) if y == south and west < x <= east]
    numbers = [corners.index(corner) for corner in path]
    return pairwise([*numbers, numbers[0]])


def _sector(floor: Floor) -> dict[str, int | str]:
    tag = {"id": floor.tag} if floor.tag else {}
    return {"texturefloor": floor.floor, "heightceiling": floor.ceiling, **_SECTOR, **tag}


def _line_kind(side: int, both: list[Floor]) -> dict[str, int | bool]:
    if len(both) == 2:
        gate = {"blockmonsters": True} if any(each.tag for each in both) else {}
        return {"sideback": side + 1, "twosided": True, **gate}
    if not both[0].opens:
        return {"blocking": True}
    use = {"special": _DOOR_RAISE, "arg0": both[0].opens, "arg1": _GATE_SPEED, "arg2": _GATE_OPEN_TICS}
    return {"blocking": True, "playeruse": True, "repeatspecial": True, **use}


def _wall(floor: Floor, both: list[Floor]) -> dict[str, str]:
    if len(both) == 1:
        return {"texturemiddle": floor.wall}
    return {"texturetop": _GATE} if len({each.ceiling for each in both}) > 1 else {}


def _thing(thing: Thing) -> dict[str, int | bool]:
    place = {"type": thing.number, "x": thing.x, "y": thing.y, "angle": thing.angle, "arg0": thing.arg0}
    return place | dict.fromkeys(_EVERYWHERE, True)


def _block(kind: str, **fields: object) -> str:
    return f"{kind} {{ {' '.join(f'{name} = {_literal(value)};' for name, value in fields.items())} }}"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
