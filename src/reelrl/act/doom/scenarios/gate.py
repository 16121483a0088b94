"""A gate that one player holds open for the others, and a chamber behind it where every second figure is a bystander.

┌─────────────────┐
│ i  b  i  b  i  b│     The first player stands at a switch and sees a wall; the others see the gate. A press on the
│  b  i  b  i     │     switch opens it for two seconds: nobody can do both, and nobody who shoots without looking
├────┤ gate ├─────┤     at what stands in the opening gains anything.
│                 │
│     p  p  p     │     ┌──────┐
└─────────────────┘     │ p  s │   s  the switch: any wall of this cell
                        └──────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import figures, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRUDERS, BYSTANDERS, BULLETS = 6, 6, 9
TIME_LIMIT_TICS = 700
SETTINGS = figures.settings("gate", TIME_LIMIT_TICS)
REWARDS = figures.REWARDS
_TAG = 1
CHAMBER = Floor(0, 256, 512, 512, "BROWN1", "FLOOR3_3")
STAND = Floor(0, 0, 512, 224, "GRAY1", "FLAT5_4")
GATE = Floor(128, 224, 384, 256, "SUPPORT2", "FLAT1", ceiling=0, tag=_TAG)
CELL = Floor(640, 0, 704, 64, "WOOD1", "FLAT5_1", opens=_TAG)


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return figures.lumps(floors(), list(_things()), bullets=BULLETS, speed=3)


def floors() -> list[Floor]:
    """The chamber, the stand before it, the gate between them, and the cell with the switch."""
    return [CHAMBER, STAND, GATE, CELL]


def _things() -> Iterator[Thing]:
    first, *others = wad.PLAYER_STARTS
    yield Thing(first, 672, 32, 0)
    for number, place in zip(others, (4, 2, 6, 3, 5, 1, 7), strict=True):
        yield Thing(number, 64 * place, 80, 90)
    for row in (320, 390, 460):
        for column in range(6):
            yield Thing(figures.SPOT, 66 + 76 * column, row)
    for row, kinds in ((330, (figures.INTRUDER, figures.BYSTANDER)), (440, (figures.BYSTANDER, figures.INTRUDER))):
        for column in range(6):
            yield Thing(kinds[column % 2], 66 + 76 * column, row)
