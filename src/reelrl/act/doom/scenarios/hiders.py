"""Five intruders stand behind pillars and do not come: walk, find them, and spend no bullet on a pillar.

┌───────────────┐     x  hiding places, five of eight by lot
│ x    x     x  │     ■  pillars: from the middle each hides the place behind it
│  ■   ■    ■   │     p  up to eight players
│               │
│x ■   p    ■  x│     Who stays in the middle sees nobody, and six bullets to a player are soon gone by chance.
│               │
│  ■   ■    ■   │
│ x    x     x  │
└───────────────┘
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import figures, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 768
INTRUDERS, BULLETS = 5, 6
TIME_LIMIT_TICS = 700
SETTINGS = figures.settings("hiders", TIME_LIMIT_TICS)
REWARDS = figures.REWARDS
_CUTS = (0, 160, 224, 352, 416, 544, 608, 768)  # walls of cells, west to east and south to north
_PILLARS = [(column, row) for column, row in product((1, 3, 5), repeat=2) if (column, row) != (3, 3)]
_NEAR, _FAR = 96, SIDE - 96
HIDING_PLACES = [(x, y) for x, y in product((_NEAR, SIDE // 2, _FAR), repeat=2) if (x, y) != (SIDE // 2, SIDE // 2)]


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return figures.lumps(floors(), list(_things()), bullets=BULLETS, speed=0)


def floors() -> Iterator[Floor]:
    """All that is not a pillar."""
    for (column, (west, east)), (row, (south, north)) in product(enumerate(pairwise(_CUTS)), repeat=2):
        if (column, row) not in _PILLARS:
            yield Floor(west, south, east, north, "GRAY1", "FLAT5_4")


def _things() -> Iterator[Thing]:
    middle = SIDE // 2
    ring = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (-1, 1), (1, -1)]
    for number, (right, up) in zip(wad.PLAYER_STARTS, ring, strict=True):
        yield Thing(number, middle + 24 * right, middle + 24 * up, {(1, 0): 0, (-1, 0): 180}.get((right, up), 90))
    for x, y in HIDING_PLACES:
        yield Thing(figures.SPOT, x, y)
    for x, y in HIDING_PLACES[:INTRUDERS]:
        yield Thing(figures.INTRUDER, x, y)
