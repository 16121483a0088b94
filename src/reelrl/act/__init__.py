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
    from reelrl.act.location.contrastive import CrossEgoContrastive as CrossEgoContrastive
    from reelrl.act.location.fuser import AgentFuser as AgentFuser
    from reelrl.act.location.net import CrossEgoVideoLocationNet as CrossEgoVideoLocationNet
    from reelrl.act.location.net_settings import ContrastiveSettings as ContrastiveSettings
    from reelrl.act.location.net_settings import LocationNetSettings as LocationNetSettings
    from reelrl.act.optimiser_state import KeepOptimisers as KeepOptimisers
    from reelrl.act.recording.maps import MapPlan as MapPlan
    from reelrl.act.recording.reader import MatchData as MatchData
    from reelrl.act.task import DoomPettingZooEnv as DoomPettingZooEnv
    from reelrl.act.task import DoomPettingZooTask as DoomPettingZooTask
    from reelrl.act.task_config import DoomTaskConfig as DoomTaskConfig
    from reelrl.act.video_critic import VideoCentralCriticModel as VideoCentralCriticModel
    from reelrl.act.video_critic import VideoCentralCriticModelConfig as VideoCentralCriticModelConfig
    from reelrl.act.video_encoder import VideoEncoder as VideoEncoder
    from reelrl.act.video_encoder import VideoEncoderSettings as VideoEncoderSettings
    from reelrl.act.video_encoder import make_video_encoder as make_video_encoder
    from reelrl.act.video_policy import VideoPolicyModel as VideoPolicyModel
    from reelrl.act.video_policy import VideoPolicyModelConfig as VideoPolicyModelConfig

_HOMES = {
    "AgentFuser": "location.fuser",
    "ContrastiveSettings": "location.net_settings",
    "CrossEgoContrastive": "location.contrastive",
    "CrossEgoVideoLocationNet": "location.net",
    "DoomPettingZooEnv": "task",
    "DoomPettingZooTask": "task",
    "DoomTaskConfig": "task_config",
    "KeepOptimisers": "optimiser_state",
    "LocationNetSettings": "location.net_settings",
    "MapPlan": "recording.maps",
    "MatchData": "recording.reader",
    "Rewards": "coop_config",
    "VZCoopConfig": "coop_config",
    "VideoCentralCriticModel": "video_critic",
    "VideoCentralCriticModelConfig": "video_critic",
    "VideoEncoder": "video_encoder",
    "VideoEncoderSettings": "video_encoder",
    "VideoPolicyModel": "video_policy",
    "VideoPolicyModelConfig": "video_policy",
    "VizDoomCoopParallelEnv": "coop_env",
    "make_video_encoder": "video_encoder",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
