"""`TeamNet`: what each player of a trained team does, from what it sees; one small file, played without BenchMARL.

video of one player [T, 3, height, width] ─► encoder ─► head ─► scores of its actions      the same net for all
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import activation

from reelrl.act.doom.env import ACTIONS
from reelrl.act.location.saved_net import load_net, save_net
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.act.video.encoder import ClipShape, make_video_encoder, read_encoder_settings
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY = "doom-team"
FILE = "team.safetensors"
EARLIER_FILE = "earlier.safetensors"  # of two sides: the copy that plays the other one
_ENCODERS = ("cnn", "residual-cnn", "video-transformer")
_ENCODER, _HEAD = "eyes.encoders.0.", "heads.0."  # in the actor of a training


@dataclass(frozen=True, kw_only=True)
class TeamSettings:
    """The match and the actor, with the keys of their YAML files; how long it was trained, and taught."""

    task: dict[str, Any]
    actor: dict[str, Any]
    step: int = 0
    taught_steps: int = 0


class TeamNet(nn.Module):
    """Scores [players, actions] of video [players, T, 3, height, width]."""

    def __init__(self, settings: TeamSettings) -> None:
        super().__init__()
        self.settings = settings
        actor = settings.actor
        if problem := not_plain(actor):
            raise ConfigError(problem)
        task = config.from_mapping(DoomTaskConfig, settings.task, foreign=True)
        clip = ClipShape(task.frame_stack, 3, *task.picture_size)
        self.encoder = make_video_encoder(read_encoder_settings(actor["video_encoder_cfg"]), clip, "cpu")
        layers: list[nn.Module] = []
        sizes = [self.encoder.embed_dim, *actor["head_hidden_sizes"]]
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), _activation(actor["activation_class"])]
        self.head = nn.Sequential(*layers, nn.Linear(sizes[-1], len(ACTIONS)))

    def forward(self, video: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(video).mean(-2))
        return scores

    @classmethod
    def of(cls, actor: Mapping[str, Tensor], settings: TeamSettings) -> TeamNet:
        """With the parameters of a training's actor."""
        with torch.random.fork_rng(devices=[]):  # weights that are replaced cost the training none of its chance
            net = cls(settings)
        mine = {
            f"encoder.{name.removeprefix(_ENCODER)}": value
            for name, value in actor.items()
            if name.startswith(_ENCODER)
        }
        mine |= {f"head.{name.removeprefix(_HEAD)}": value for name, value in actor.items() if name.startswith(_HEAD)}
        net.load_state_dict(mine)
        return net.eval()

    def save(self, path: str | Path) -> None:
        save_net(self, KEY, path)

    @classmethod
    def load(cls, path: str | Path) -> TeamNet:
        give = f"the {FILE} that `reel train doom` leaves in a run's artifacts"
        return load_net(cls, TeamSettings, [KEY], path, name="team", give=give)


def not_plain(actor: Mapping[str, Any]) -> str:
    """Why an actor cannot be had as a file of its own; empty where it can."""
    encoder = read_encoder_settings(actor.get("video_encoder_cfg"))
    if encoder.model_type not in _ENCODERS or encoder.freeze_backbone:
        return (
            f"its encoder is {encoder.model_type}, trained elsewhere; a team's file has one of {', '.join(_ENCODERS)}"
        )
    more = {key: actor[key] for key in ("aux_keys", "layer_norm", "return_temporal_features") if actor.get(key)}
    if more:
        found = ", ".join(f"{key} = {value}" for key, value in more.items())
        return f"its actor has {found}; a team's file has pictures and plain layers alone"
    return ""


def _activation(dotted: str) -> nn.Module:
    module, _, name = dotted.rpartition(".")
    if module != "torch.nn" or name not in activation.__all__:
        raise ConfigError(f"activation_class is {dotted!r}{did_you_mean(name, activation.__all__)}")
    made: nn.Module = getattr(activation, name)()
    return made
