"""Two sides against each other among four pillars: see the other first, and hit.

┌───────────────┐     p  eight places to begin in and to come back to, each time the one farthest from the others
│ p    p     p  │     ■  pillars
│   ■     ■     │
│ p          p  │     Two or three bullets end a player, who comes back at once. There are bullets for all of the
│   ■     ■     │     twenty seconds, but a bullet needs somebody before it.
│ p    p     p  │
└───────────────┘
"""

from __future__ import annotations

from itertools import pairwise, product
from math import atan2, degrees
from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import figures, floor_plan, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing
from reelrl.act.doom.settings import Rewards

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDES = 2
SIDE = 448
TIME_LIMIT_TICS = 700
SETTINGS = figures.settings("duel", TIME_LIMIT_TICS)
REWARDS = Rewards(kill=1.0, hit=0.0, death=0.0, damage_taken=0.0, goal=0.0)
"""A frag is a point for one side and costs the other one."""
_CUTS = (0, 128, 176, 272, 320, SIDE)  # walls of cells, west to east and south to north
_PILLARS = list(product((1, 3), repeat=2))
_NEAR, _FAR = 64, SIDE - 64

LEVEL = """
gameinfo { playerclasses = "Duellist" }
map MAP01 "Duel" { next = "MAP01" }
"""

# The dead leave nothing to be taken for the living, and the fog in which players appear would hide them.
ACTORS = """
actor Duellist : DoomPlayer
{
  Health 20
  Player.DisplayName "Duellist"
  Player.StartItem "Pistol"
  Player.StartItem "Clip", 50
  states
  {
  Death:
    PLAY H 4
    TNT1 A 4 A_NoBlocking
    TNT1 A -1
    stop
  }
}
actor NoFog : TeleportFog replaces TeleportFog
{
  states
  {
  Spawn:
    TNT1 A 1
    stop
  }
}
"""


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return floor_plan.lumps(LEVEL, ACTORS, floors(), _things())


def floors() -> list[Floor]:
    """All that is not a pillar."""
    cells = product(enumerate(pairwise(_CUTS)), repeat=2)
    return [
        Floor(west, south, east, north, "GRAY1", "FLAT5_4")
        for (column, (west, east)), (row, (south, north)) in cells
        if (column, row) not in _PILLARS
    ]


def _things() -> Iterator[Thing]:
    middle = SIDE // 2
    for x, y in product((_NEAR, middle, _FAR), repeat=2):
        if (x, y) != (middle, middle):
            yield Thing(wad.DEATHMATCH_START, x, y, round(degrees(atan2(middle - y, middle - x))) % 360)
