"""Many eyes on one game: several players in one Doom match, each of them seeing it through its own eyes.

    env = VizDoomCoopParallelEnv(VZCoopConfig(num_players=2, skip=4), frame_stack=4, max_steps=500)
    observations, infos = env.reset(seed=0)

Names are imported when they are first used, so that a player's process stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.names import lazy

if TYPE_CHECKING:
    from reelrl.act.doom.env import VizDoomCoopParallelEnv as VizDoomCoopParallelEnv
    from reelrl.act.doom.settings import Rewards as Rewards
    from reelrl.act.doom.settings import VZCoopConfig as VZCoopConfig
    from reelrl.act.location.model.contrastive_loss import CrossEgoContrastive as CrossEgoContrastive
    from reelrl.act.location.model.fuser import AgentFuser as AgentFuser
    from reelrl.act.location.model.net import CrossEgoVideoLocationNet as CrossEgoVideoLocationNet
    from reelrl.act.location.model.settings import ContrastiveSettings as ContrastiveSettings
    from reelrl.act.location.model.settings import LocationNetSettings as LocationNetSettings
    from reelrl.act.marl.benchmarl.models import VideoCentralCriticModel as VideoCentralCriticModel
    from reelrl.act.marl.benchmarl.models import VideoCentralCriticModelConfig as VideoCentralCriticModelConfig
    from reelrl.act.marl.benchmarl.models import VideoPolicyModel as VideoPolicyModel
    from reelrl.act.marl.benchmarl.models import VideoPolicyModelConfig as VideoPolicyModelConfig
    from reelrl.act.marl.benchmarl.task import DoomPettingZooEnv as DoomPettingZooEnv
    from reelrl.act.marl.benchmarl.task import DoomPettingZooTask as DoomPettingZooTask
    from reelrl.act.marl.benchmarl.train import KeepOptimisers as KeepOptimisers
    from reelrl.act.marl.task_config import DoomTaskConfig as DoomTaskConfig
    from reelrl.act.recording.maps import MapPlan as MapPlan
    from reelrl.act.recording.reader import MatchData as MatchData
    from reelrl.act.video.encoder import VideoEncoder as VideoEncoder
    from reelrl.act.video.encoder import VideoEncoderSettings as VideoEncoderSettings
    from reelrl.act.video.encoder import make_video_encoder as make_video_encoder

_HOMES = {
    "AgentFuser": "location.model.fuser",
    "ContrastiveSettings": "location.model.settings",
    "CrossEgoContrastive": "location.model.contrastive_loss",
    "CrossEgoVideoLocationNet": "location.model.net",
    "DoomPettingZooEnv": "marl.benchmarl.task",
    "DoomPettingZooTask": "marl.benchmarl.task",
    "DoomTaskConfig": "marl.task_config",
    "KeepOptimisers": "marl.benchmarl.train",
    "LocationNetSettings": "location.model.settings",
    "MapPlan": "recording.maps",
    "MatchData": "recording.reader",
    "Rewards": "doom.settings",
    "VZCoopConfig": "doom.settings",
    "VideoCentralCriticModel": "marl.benchmarl.models",
    "VideoCentralCriticModelConfig": "marl.benchmarl.models",
    "VideoEncoder": "video.encoder",
    "VideoEncoderSettings": "video.encoder",
    "VideoPolicyModel": "marl.benchmarl.models",
    "VideoPolicyModelConfig": "marl.benchmarl.models",
    "VizDoomCoopParallelEnv": "doom.env",
    "make_video_encoder": "video.encoder",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
