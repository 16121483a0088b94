"""Nine rooms: a team holds the middle one against intruders that come from the four corners.

    ┌────┬────┬────┐     m  four intruders, which set out one after the other
    │ m  │ h  │ m  │     h  medikits and bullets
    ├─  ─┼─  ─┼─  ─┤     p  up to eight players, back to back
    │ h     p     h│
    ├─  ─┼─  ─┼─  ─┤     Each room has walls of its own, so that a view tells where it was seen.
    │ m  │ h  │ m  │
    └────┴────┴────┘     All neighbouring rooms are joined by doorways.

Intruders come from all sides at once, which one pair of eyes cannot watch. When the last of them is dead the level
ends: the team's goal. After a minute it ends anyway.
"""

from __future__ import annotations

from itertools import product
from math import atan2, degrees
from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import floor_plan, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM = 416  # sides and gaps in map units; a player is 32 wide
GAP = 32
DOORWAY = 192
INTRUDERS_PER_CORNER = 4
INTRUDERS = 4 * INTRUDERS_PER_CORNER
FIRST_WAVE_S, WAVE_S = 2, 7  # when the first intruders set out, and how long after each other
TIME_LIMIT_TICS = 2100

# name, wall, floor; by row from the south-west
ROOMS = (
    ("south-west", "BRICK7", "FLOOR5_1"),
    ("south", "GRAY1", "FLAT5_4"),
    ("south-east", "MARBLE1", "FLOOR7_1"),
    ("west", "WOOD1", "FLAT5_1"),
    ("middle", "STARTAN2", "FLOOR0_1"),
    ("east", "METAL1", "FLAT23"),
    ("north-west", "BROWN1", "FLOOR3_3"),
    ("north", "TEKGREN2", "FLAT14"),
    ("north-east", "STONE2", "RROCK09"),
)
PLACES = tuple(name for name, _, _ in ROOMS)

SETTINGS = f"""
doom_scenario_path = nine_rooms.wad
doom_map = map01
doom_skill = 3
episode_start_time = 1
episode_timeout = {TIME_LIMIT_TICS}
screen_resolution = RES_320X240
render_hud = true
render_crosshair = false
render_weapon = true
render_decals = false
render_particles = false
mode = PLAYER
"""

LEVEL = """
gameinfo { playerclasses = "Guard" }
map MAP01 "Nine rooms"
{
  next = "MAP01"
  specialaction = "Intruder", "Exit_Normal", 0
}
"""

_NUMBERS = range(1, 9)
_EACH_PLAYER = ", ".join(f'"Player{number}"' for number in _NUMBERS)
_TARGETS = "".join(
    f"""
  Player{number}:
    SARG A 4 A_TransferPointer(AAPTR_PLAYER{number}, AAPTR_DEFAULT, AAPTR_DEFAULT, AAPTR_TARGET)
    goto See"""
    for number in _NUMBERS
)
# An intruder bites and cannot shoot, so that intruders never fight each other. Its first argument is the seconds it
# waits; then it goes for a player by lot, seen or not. (One who does not play is no target, and the lot is cast again.)
# The fog in which players of a netgame appear would hide the first seconds.
ACTORS = f"""
actor Guard : DoomPlayer
{{
  Player.DisplayName "Guard"
  Player.StartItem "Pistol"
  Player.StartItem "Fist"
  Player.StartItem "Clip", 60
}}
actor NoFog : TeleportFog replaces TeleportFog
{{
  states
  {{
  Spawn:
    TNT1 A 1
    stop
  }}
}}
actor Intruder : Demon 20001
{{
  Health 30
  Speed 9
  PainChance 128
  states
  {{
  Spawn:
    SARG A 0 A_JumpIf(args[0] <= 0, "Hunt")
    SARG A 35 A_SetArg(0, args[0] - 1)
    loop
  Hunt:
    SARG A 1 A_Jump(256, {_EACH_PLAYER})
    loop{_TARGETS}
  Melee:
    SARG EF 8 A_FaceTarget
    SARG G 8 A_CustomMeleeAttack(random(4, 12), "demon/melee")
    goto See
  Death:
    SARG I 4 A_Scream
    SARG J 4 A_NoBlocking
    SARG K 4
    SARG L 4
    SARG M 4 A_BossDeath
    SARG N -1
    stop
  }}
}}
"""
_INTRUDER, _MEDIKIT, _CLIP = 20001, 2012, 2007


def lumps() -> list[wad.Lump]:
    """The scenario's WAD, as lumps."""
    return floor_plan.lumps(LEVEL, ACTORS, floors(), _things())


def place_of(x: float, y: float) -> int:
    """Index into `PLACES` of a position; a doorway belongs to the nearer room."""
    column, row = (min(2, max(0, int((value + GAP / 2) // (ROOM + GAP)))) for value in (x, y))
    return row * 3 + column


def room(index: int) -> Floor:
    """The floor of a room, by its index in `ROOMS`."""
    west, south = _corner(index)
    _, wall, floor = ROOMS[index]
    return Floor(west, south, west + ROOM, south + ROOM, wall, floor)


def _corner(index: int) -> tuple[int, int]:
    row, column = divmod(index, 3)
    return column * (ROOM + GAP), row * (ROOM + GAP)


def centre(index: int) -> tuple[int, int]:
    west, south = _corner(index)
    return west + ROOM // 2, south + ROOM // 2


def floors() -> Iterator[Floor]:
    """Rooms and the doorways between them."""
    side = (ROOM - DOORWAY) // 2
    for index in range(len(ROOMS)):
        west, south = _corner(index)
        yield room(index)
        row, column = divmod(index, 3)
        if column < 2:
            yield Floor(west + ROOM, south + side, west + ROOM + GAP, south + side + DOORWAY, "SUPPORT2", "FLAT1")
        if row < 2:
            yield Floor(west + side, south + ROOM, west + side + DOORWAY, south + ROOM + GAP, "SUPPORT2", "FLAT1")


def _things() -> Iterator[Thing]:
    x, y = centre(PLACES.index("middle"))
    ring = [(1, 1), (-1, -1), (-1, 1), (1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)]
    for number, (right, up) in zip(wad.PLAYER_STARTS, ring, strict=True):
        yield Thing(number, x + 64 * right, y + 64 * up, round(degrees(atan2(up, right))) % 360)
    for name in ("south-west", "south-east", "north-west", "north-east"):
        x, y = centre(PLACES.index(name))
        for wave, (right, up) in enumerate(product((-1, 1), repeat=2)):
            yield Thing(_INTRUDER, x + 96 * right, y + 96 * up, arg0=FIRST_WAVE_S + WAVE_S * wave)
    for name in ("south", "west", "east", "north"):
        x, y = centre(PLACES.index(name))
        yield Thing(_MEDIKIT, x - 48, y)
        yield Thing(_CLIP, x + 48, y)
