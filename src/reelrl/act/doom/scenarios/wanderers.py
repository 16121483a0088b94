"""What the levels that matches are recorded in have in common: enemies that wander, hunt, die and come back elsewhere.

A level without an end: nothing to win, nothing to pick up. The players begin in rooms of their own, so that who is
where is open from the first second. Everybody has a colour of their own, so that a picture tells who it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import floor_plan, wad
from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Box = tuple[int, int, int, int]  # west, south, east, north

LEVEL = """
gameinfo { playerclasses = "Guard" }
map MAP01 "Wanderers" { next = "MAP01" }
"""

# A wanderer begins, and comes back after each death, in a place by lot: its first argument is 1 then. (The engine skips
# the action of an actor's very first state.) It bites and cannot shoot, so that wanderers never fight each other; it
# hunts whom it sees and gives up after a while, so that it is not always where players are. The fog in which players
# of a netgame appear would hide the first seconds.
ACTORS = """
actor Guard : DoomPlayer
{
  Player.DisplayName "Guard"
  Player.StartItem "Pistol"
  Player.StartItem "Fist"
  Player.StartItem "Clip", 200
  Player.ForwardMove 1.3
  Player.ColorSet 0, "Green", 112, 127, 114
  Player.ColorSet 1, "Red", 176, 191, 178
  Player.ColorSet 2, "Blue", 192, 207, 194
  Player.ColorSet 3, "White", 80, 95, 82
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
actor Haunt : SpecialSpot 20003 { }
actor Wanderer : Demon
{
  Health 50
  Speed 10
  PainChance 128
  states
  {
  Spawn:
    SARG A 1
    SARG A 1 A_JumpIf(args[0] > 0, "Arrive")
    goto Roam
  Arrive:
    SARG A 0 A_SetArg(0, 0)
    SARG A 1 A_Teleport("Roam", "Haunt", "NoFog")
    goto Roam
  Roam:
    SARG AABBCCDD 3 A_Wander
    SARG A 0 A_LookEx(LOF_NOSOUNDCHECK, 0, 480, 0, 0, "See")
    loop
  See:
    SARG AABBCCDD 2 A_Chase
    SARG A 0 A_Jump(20, "GiveUp")
    loop
  GiveUp:
    SARG A 0 A_ClearTarget
    SARG AABBCCDDAABBCCDDAABBCCDD 3 A_Wander
    goto Roam
  Melee:
    SARG EF 8 A_FaceTarget
    SARG G 8 A_CustomMeleeAttack(random(10, 30), "demon/melee")
    goto See
  Death:
    SARG I 4 A_Scream
    SARG J 4 A_NoBlocking
    SARG KLM 4
    SARG N 20 A_SetArg(0, 1)
  Gone:
    TNT1 A 70
    TNT1 A 1 A_Respawn(0)
    loop
  }
}
"""
_HAUNT, _FIRST_WANDERER = 20003, 20010
# How much of red, green and blue white becomes; a darker spot becomes as much darker.
_COLOURS = ((2.0, 0.6, 0.6), (0.5, 0.9, 2.0), (0.6, 1.8, 0.5), (2.0, 1.7, 0.3), (1.6, 0.5, 2.0), (1.1, 1.1, 1.1))


def settings(name: str) -> str:
    """The scenario's .cfg file."""
    return f"""
doom_scenario_path = {name}.wad
doom_map = map01
doom_skill = 3
episode_start_time = 1
screen_resolution = RES_160X120
render_hud = false
render_crosshair = false
render_weapon = false
render_decals = false
render_particles = false
mode = PLAYER
"""


def lumps(floors: Iterable[Floor], places: Mapping[str, Box], starts: Sequence[str], wanderers: int) -> list[wad.Lump]:
    """The WAD: players begin in the middle of `starts`, wanderers anywhere."""
    middles = {name: ((west + east) // 2, (south + north) // 2) for name, (west, south, east, north) in places.items()}
    things = [Thing(number, *middles[name]) for number, name in zip(wad.PLAYER_STARTS, starts, strict=False)]
    things += [Thing(_HAUNT, x, y) for x, y in middles.values()]
    last = list(middles.values())[-wanderers:]  # one to a place until they go where their lot sends them
    things += [Thing(_FIRST_WANDERER + number, x + 72, y + 72, arg0=1) for number, (x, y) in enumerate(reversed(last))]
    return floor_plan.lumps(LEVEL, ACTORS + "".join(map(_coloured, range(wanderers))), floors, things)


def _coloured(number: int) -> str:
    """A wanderer that differs from the others in colour alone."""
    red, green, blue = _COLOURS[number]
    tint = f'"0:255=%[0,0,0]:[{red},{green},{blue}]"'
    return f"actor Wanderer{number} : Wanderer {_FIRST_WANDERER + number} {{ Translation {tint} }}\n"
