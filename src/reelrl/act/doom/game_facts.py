"""What a player's process tells about its game beside the picture, in one row of numbers, and what a team earns by it.

A row is float64, in the order of `FACTS`. The first ones are ViZDoom's game variables of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reelrl.act.doom.settings import Rewards

GAME_VARIABLES = (
    "HEALTH",
    "ARMOR",
    "SELECTED_WEAPON_AMMO",
    "KILLCOUNT",
    "DEATHCOUNT",
    "HITCOUNT",
    "DAMAGE_TAKEN",
    "POSITION_X",
    "POSITION_Y",
    "POSITION_Z",
    "ANGLE",
    "DEAD",
    "PLAYER_NUMBER",
)
FACTS = (*GAME_VARIABLES, "EPISODE_TIME", "TOTAL_REWARD")  # in tics; what the scenario's own script has given so far
COLUMN = {name: index for index, name in enumerate(FACTS)}

# Counters, by the setting that weighs them. The engine counts kills for the level: every player is told the team's.
_OF_EACH = {"hit": "HITCOUNT", "death": "DEATHCOUNT", "damage_taken": "DAMAGE_TAKEN", "scenario": "TOTAL_REWARD"}
_OF_ALL = {"kill": "KILLCOUNT"}


def team_reward(before: NDArray[np.float64], after: NDArray[np.float64], weights: Rewards, *, goal: bool) -> float:
    """What every player of the team earns by the step between two (players, facts) tables: the same for all."""
    gained = after - before
    earned = sum(getattr(weights, name) * gained[:, COLUMN[fact]].sum() for name, fact in _OF_EACH.items())
    earned += sum(getattr(weights, name) * gained[:, COLUMN[fact]].max() for name, fact in _OF_ALL.items())
    return float(earned + weights.goal * goal)
