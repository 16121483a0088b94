"""A cloister: galleries around a court, rooms of different sizes outside them, two ways round the back.

              ┌──────┐┌───────────┐
              │ cell  ·  chapel   │         ·  doorways
              └──·───┘└────·──────┘
     ┌──────────┐┌────────────────┐         The galleries are open to each other at the corners.
     │          ││ north gallery  │
     │          ││ w ┌───·────┐ e │┌───────┐
     │ library  · e ·  court ·  a ··kitchen│
     └──────────┘│ s └───·────┘ s │└───·───┘
                 │ south gallery  │
                 └───·────────────┘
                ┌────────────┐┌────────┐
                │ refectory   ·  garden │
                └────────────┘└────────┘

Nothing of it looks like the nine rooms: what was learned there by heart does not help here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import wanderers
from reelrl.act.doom.scenarios.floor_plan import Floor

if TYPE_CHECKING:
    from reelrl.act.doom.scenarios import wad

WANDERERS = 6
STARTS = ("chapel", "refectory", "library", "kitchen", "court", "cell", "garden", "east gallery")
SETTINGS = wanderers.settings("cloister")

ROOMS = {
    "court": Floor(512, 512, 960, 960, "BROWNHUG", "GRASS1"),
    "south gallery": Floor(320, 320, 1152, 480, "BRICK10", "FLAT5"),
    "north gallery": Floor(320, 992, 1152, 1152, "BRONZE1", "FLAT1_1"),
    "west gallery": Floor(320, 480, 480, 992, "PIPE2", "FLOOR4_1"),
    "east gallery": Floor(992, 480, 1152, 992, "TANROCK4", "FLOOR4_8"),
    "chapel": Floor(480, 1184, 1056, 1600, "GSTONE1", "FLOOR6_1"),
    "refectory": Floor(320, -128, 896, 288, "BIGBRIK1", "FLAT8"),
    "library": Floor(-160, 544, 288, 1056, "PANEL7", "CEIL5_1"),
    "kitchen": Floor(1184, 448, 1568, 864, "SHAWN2", "FLAT20"),
    "cell": Floor(64, 1184, 448, 1504, "ASHWALL2", "MFLR8_4"),
    "garden": Floor(928, -64, 1408, 288, "ZIMMER5", "GRASS2"),
}
DOORWAYS = (
    (656, 480, 816, 512),
    (656, 960, 816, 992),
    (480, 656, 512, 816),
    (960, 656, 992, 816),
    (672, 1152, 800, 1184),
    (528, 288, 688, 320),
    (288, 720, 320, 848),
    (1152, 560, 1184, 688),
    (448, 1264, 480, 1392),
    (96, 1056, 224, 1184),
    (896, 64, 928, 192),
    (1216, 288, 1344, 448),
)


def places() -> dict[str, wanderers.Box]:
    """Rooms by name."""
    return {name: floor[:4] for name, floor in ROOMS.items()}


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    doorways = [Floor(*box, "SUPPORT3", "FLAT19") for box in DOORWAYS]
    return wanderers.lumps([*ROOMS.values(), *doorways], places(), STARTS, WANDERERS)
