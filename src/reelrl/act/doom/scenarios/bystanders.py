"""One hall, eight intruders among eight bystanders, six bullets to a player: look before you shoot.

┌───────────────┐     i  intruders, b  bystanders: where by lot, and all of them wander
│ i  b   i   b  │     p  up to eight players, back to back in the middle
│ b    p p   i  │
│ i    p p   b  │     Every second figure that a bullet meets by chance is a bystander, who costs what an intruder
│  b  i   b  i  │     brings, and there are hardly more bullets than intruders.
└───────────────┘
"""

from __future__ import annotations

from math import atan2, cos, degrees, pi, sin
from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import figures, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 704
INTRUDERS, BYSTANDERS, BULLETS = 8, 8, 6
TIME_LIMIT_TICS = 490
SETTINGS = figures.settings("bystanders", TIME_LIMIT_TICS)
REWARDS = figures.REWARDS
_RINGS = (200, 290)  # map units from the middle


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return figures.lumps(floors(), list(_things()), bullets=BULLETS, speed=3)


def floors() -> list[Floor]:
    """One hall."""
    return [Floor(0, 0, SIDE, SIDE, "GRAY1", "FLAT5_4")]


def _things() -> Iterator[Thing]:
    middle = SIDE // 2
    ring = [(1, 1), (-1, -1), (-1, 1), (1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)]
    for number, (right, up) in zip(wad.PLAYER_STARTS, ring, strict=True):
        yield Thing(number, middle + 40 * right, middle + 40 * up, round(degrees(atan2(up, right))) % 360)
    for radius in _RINGS:
        for x, y in around(middle, radius, 12):
            yield Thing(figures.SPOT, x, y)
    kinds = [figures.INTRUDER, figures.BYSTANDER] * INTRUDERS
    for kind, (x, y) in zip(kinds, around(middle, 245, len(kinds)), strict=True):
        yield Thing(kind, x, y)


def around(middle: int, radius: int, count: int) -> Iterator[tuple[int, int]]:
    """So many points on a circle."""
    for number in range(count):
        angle = 2 * pi * number / count
        yield middle + round(radius * cos(angle)), middle + round(radius * sin(angle))
