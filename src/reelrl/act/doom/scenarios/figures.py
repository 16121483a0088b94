"""What the scenarios that need eyes have in common: intruders to shoot, bystanders to spare, and few bullets.

Intruders are red, bystanders blue. One bullet ends either. An intruder counts as a kill; a bystander hurts whoever shot
it, by `BYSTANDER_DAMAGE` points of health, few enough to outlive all bullets. Nobody attacks: health is lost by bad
shots alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.scenarios import floor_plan
from reelrl.act.doom.settings import Rewards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reelrl.act.doom.scenarios import wad
    from reelrl.act.doom.scenarios.floor_plan import Floor, Thing

BYSTANDER_DAMAGE = 10
REWARDS = Rewards(kill=1.0, hit=0.0, death=0.0, damage_taken=-1 / BYSTANDER_DAMAGE, goal=2.0)
"""A kill is a point, a bystander costs one; two more when no intruder is left."""

LEVEL = """
gameinfo { playerclasses = "Marksman" }
map MAP01 "Figures"
{
  next = "MAP01"
  specialaction = "Intruder", "Exit_Normal", 0
}
"""

# A figure goes to a spot by lot when the level begins. (The engine skips the action of an actor's very first state.)
# Its speed says whether it wanders.
_ACTORS = """
actor Marksman : DoomPlayer
{{
  Player.DisplayName "Marksman"
  Player.StartItem "Pistol"
  Player.StartItem "Clip", {bullets}
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
actor Spot : SpecialSpot 20004 {{ }}
actor Figure : Demon
{{
  Health 3
  Radius 24
  Height 56
  Speed {speed}
  -SOLID
  +NOBLOOD
  states
  {{
  Spawn:
    SARG A 1
    SARG A 1 A_Teleport("Again", "Spot", "NoFog")
  Again:
    SARG A 1 A_Teleport("Stay", "Spot", "NoFog")
  Stay:
    SARG A 1 A_Jump(256, "Walk")
  Walk:
    SARG AABBCCDD 4 A_Wander
    loop
  }}
}}
actor Intruder : Figure 20005
{{
  Translation "0:255=%[0,0,0]:[2.0,0.3,0.3]"
  states
  {{
  Death:
    SARG I 2
    SARG J 2 A_NoBlocking
    SARG K 2 A_BossDeath
    TNT1 A -1
    stop
  }}
}}
actor Bystander : Figure 20006
{{
  -COUNTKILL
  Translation "0:255=%[0,0,0]:[0.3,0.6,2.0]"
  states
  {{
  Death:
    SARG I 2
    SARG J 2 A_DamageTarget({damage})
    SARG K 2 A_NoBlocking
    TNT1 A -1
    stop
  }}
}}
"""
SPOT, INTRUDER, BYSTANDER = 20004, 20005, 20006


def settings(name: str, tics: int) -> str:
    """The scenario's .cfg file."""
    return f"""
doom_scenario_path = {name}.wad
doom_map = map01
doom_skill = 3
episode_start_time = 1
episode_timeout = {tics}
screen_resolution = RES_160X120
render_hud = false
render_crosshair = false
render_weapon = false
render_decals = false
render_particles = false
mode = PLAYER
"""


def lumps(floors: Iterable[Floor], things: Sequence[Thing], *, bullets: int, speed: int) -> list[wad.Lump]:
    """A scenario's WAD; every player has so many bullets."""
    actors = _ACTORS.format(bullets=bullets, speed=speed, damage=BYSTANDER_DAMAGE)
    return floor_plan.lumps(LEVEL, actors, floors, things)
