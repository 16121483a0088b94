"""Many eyes on one game: several players in one Doom match, each of them seeing it through its own eyes.

    env = VizDoomCoopParallelEnv(VZCoopConfig(num_players=2, skip=4), frame_stack=4, max_steps=500)
    observations, infos = env.reset(seed=0)

Names are imported when they are first used, so that a player's process stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reelrl.act.coop_config import Rewards as Rewards
    from reelrl.act.coop_config import VZCoopConfig as VZCoopConfig
    from reelrl.act.coop_env import VizDoomCoopParallelEnv as VizDoomCoopParallelEnv

_HOMES = {
    "Rewards": "coop_config",
    "VZCoopConfig": "coop_config",
    "VizDoomCoopParallelEnv": "coop_env",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
