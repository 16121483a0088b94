"""Teams that were trained: a run of `reel train doom`, the team.safetensors that it leaves, or one that ships, by name.

saved = open_team("gate")               # or "runs/0007", or "runs/0007/artifacts/team.safetensors"
env, team = saved.make_env(), saved.team()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import seeding
from reelrl.act.doom.weights import SHIPPED
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.errors import ConfigError, RunError
from reelrl.names import did_you_mean, names_a_file
from reelrl.runs.folder import RunFolder
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.act.doom.env import VizDoomCoopParallelEnv
    from reelrl.act.doom.team_net import TeamNet
    from reelrl.act.doom.teams import Team
    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.checkpoints import Checkpoint


@dataclass(frozen=True)
class SavedTeam:
    """Where a team is, the match it was trained in, and how long."""

    name: str
    task: dict[str, Any]
    step: int
    seed: int | None
    """Of its run, where it is known."""
    net: Any
    """A `TeamNet`; None: the actor is part of the run's checkpoint."""

    def team(self, *, greedy: bool = False) -> Team:
        """The players; `greedy` ones take the best action instead of drawing."""
        if self.net is not None:
            return NetTeam(self.net, greedy=greedy)
        return TrainedTeam(RunFolder(self.name), greedy=greedy)

    def make_env(self, *, sightings: bool = False) -> VizDoomCoopParallelEnv:
        return task_env(self.task, sightings=sightings)


def open_team(name: str | Path) -> SavedTeam:
    """The team that a word means; an error tells what is missing before any engine starts."""
    from reelrl.act.doom import team_net

    file = SHIPPED.get(str(name), Path(name))
    if file.suffix == ".safetensors":
        shipped = team_net.TeamNet.load(file)
        return SavedTeam(str(name), shipped.settings.task, shipped.settings.step, None, shipped)
    if not names_a_file({}, str(name)):
        raise RunError(f"there is no team {str(name)!r}: no run, no file{did_you_mean(str(name), SHIPPED)}")
    run = RunFolder(name)
    settings, checkpoint = settings_of(run), require_checkpoint(run)
    of_its_own = (run.artifacts / team_net.FILE).exists()
    net = team_net.TeamNet.load(run.artifact(team_net.FILE)) if of_its_own else None
    # The file is written after the checkpoint: where a training was killed in between, it is of an earlier step.
    step = checkpoint.step if net is None else net.settings.step
    return SavedTeam(str(run.folder), settings.task, step, run.seed, net)


class NetTeam:
    """The players of one net."""

    def __init__(self, net: TeamNet, *, greedy: bool = False) -> None:
        self._net, self._greedy = net, greedy

    def reset(self, seed: int) -> None:
        import torch

        self._draws = torch.Generator().manual_seed(seeding.seed_for(seed, "trained team"))

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        import torch

        with torch.no_grad():
            scores = self._net(torch.from_numpy(np.stack(list(observations.values()))))
        if self._greedy:
            chosen = scores.argmax(-1)
        else:
            chosen = torch.multinomial(scores.softmax(-1), 1, generator=self._draws)[:, 0]
        return dict(zip(observations, chosen.tolist(), strict=True))


class TrainedTeam:
    """The players of a run whose actor has no file of its own, as its last checkpoint has them."""

    def __init__(self, run: RunFolder, *, greedy: bool = False) -> None:
        from reelrl.act.marl.benchmarl.train import DoomExperiment
        from reelrl.act.marl.settings import on_cpu

        checkpoint = require_checkpoint(run)
        # Encoders that are frozen are the model's own here: nobody collects.
        experiment = DoomExperiment(on_cpu(settings_of(run)), run.seed, encode_at_collection=False)
        try:
            experiment.restore(checkpoint)
            self._policy = experiment.policy.eval()
        finally:
            experiment.close()
        self._greedy = greedy

    def reset(self, seed: int) -> None:
        import torch

        torch.manual_seed(seeding.seed_for(seed, "trained team"))

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        import torch
        from tensordict import TensorDict
        from torchrl.envs.utils import ExplorationType, set_exploration_type

        seen = _stacked(list(observations.values()))
        how = ExplorationType.DETERMINISTIC if self._greedy else ExplorationType.RANDOM
        with torch.no_grad(), set_exploration_type(how):
            answer = self._policy(TensorDict({"player": TensorDict({"observation": seen}, [len(observations)])}, []))
        return dict(zip(observations, answer["player", "action"].tolist(), strict=True))


def settings_of(run: RunFolder) -> DoomTraining:
    """A run's settings, if it is one of Doom."""
    from reelrl.act.marl.settings import DoomTraining

    if run.stage != "doom":
        raise ConfigError(f"{run.folder} is a run of `reel train {run.stage}`; give one of `reel train doom`")
    return run.settings(DoomTraining)


def require_checkpoint(run: RunFolder) -> Checkpoint:
    """A run's last checkpoint, which it must have for its team to play."""
    checkpoint = run.checkpoints.latest()
    if checkpoint is None:
        raise RunError(f"{run.folder} has no checkpoint yet; train it further")
    return checkpoint


def task_env(task: Mapping[str, Any], *, sightings: bool = False) -> VizDoomCoopParallelEnv:
    """The match of a training, without BenchMARL around it."""
    return config.from_mapping(DoomTaskConfig, task, foreign=True).make_env(sightings=sightings)


def _stacked(seen: list[Any]) -> Any:
    import torch
    from tensordict import TensorDict

    if isinstance(seen[0], dict):
        parts = {name: torch.from_numpy(np.stack([each[name] for each in seen])) for name in seen[0]}
        return TensorDict(parts, [len(seen)])
    return torch.from_numpy(np.stack(seen))
