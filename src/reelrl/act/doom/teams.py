"""Who plays: a trained team, one that acts by chance, one that follows a simple rule; and whole episodes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reelrl import seeding
from reelrl.act.doom.env import ACTIONS
from reelrl.errors import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reelrl.act.doom.env import VizDoomCoopParallelEnv
    from reelrl.act.marl.settings import DoomTraining
    from reelrl.runs.checkpoints import Checkpoint
    from reelrl.runs.folder import RunFolder


class Team(Protocol):
    """Anything that answers what all players see with what they do."""

    def reset(self, seed: int) -> None: ...
    def act(self, observations: Mapping[str, Any]) -> dict[str, int]: ...


class RandomTeam:
    """Every action equally likely."""

    def reset(self, seed: int) -> None:
        self._random = seeding.stream(seed, "random team")

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        return {agent: int(self._random.integers(len(ACTIONS))) for agent in observations}


class SweepingTeam:
    """A rule without eyes: turn a little, shoot, turn on; neighbours turn in opposite directions."""

    def reset(self, seed: int) -> None:
        del seed
        self._steps = 0

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        self._steps += 1
        turns = ("turn left", "turn right")
        return {
            agent: ACTIONS.index("attack" if self._steps % 2 else turns[number % 2])
            for number, agent in enumerate(observations)
        }


class TrainedTeam:
    """The players of a run, as its last checkpoint has them; `greedy` ones take the best action instead of drawing."""

    def __init__(self, run: RunFolder, *, greedy: bool = False) -> None:
        from reelrl.act.marl.benchmarl.train import DoomExperiment

        checkpoint = require_checkpoint(run)
        # Encoders that are frozen are the model's own here: nobody collects.
        experiment = DoomExperiment(settings_of(run), run.seed, encode_at_collection=False)
        try:
            experiment.restore(checkpoint)
            self._policy = experiment.policy.eval()
            self._spec = experiment.observation_spec
        finally:
            experiment.close()
        self._greedy, self.step = greedy, checkpoint.step

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


@dataclass(frozen=True)
class PlayedEpisode:
    """How one went: the sum of the team's rewards, steps, and the last infos' counters summed over players."""

    seed: int
    reward: float
    steps: int
    kills: int
    deaths: int


def play(
    env: VizDoomCoopParallelEnv, team: Team, seed: int, each_step: Callable[[], None] = lambda: None
) -> PlayedEpisode:
    """One episode in fresh engines, so that teams can be compared in the same match."""
    observations, infos = env.reset(seed=seed)
    team.reset(seed)
    reward, steps = 0.0, 0
    while env.agents:
        each_step()
        observations, rewards, _, _, infos = env.step(team.act(observations))
        reward += float(np.mean(list(rewards.values())))
        steps += 1
    kills = max(info["kills"] for info in infos.values())  # the engine counts them for the team
    return PlayedEpisode(seed, reward, steps, kills, sum(info["deaths"] for info in infos.values()))


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


def make_env(settings: DoomTraining) -> VizDoomCoopParallelEnv:
    """The match of a training, without BenchMARL around it."""
    from reelrl.act.marl.task_config import DoomTaskConfig
    from reelrl.settings import config

    return config.from_mapping(DoomTaskConfig, settings.task, foreign=True).make_env()


def _stacked(seen: list[Any]) -> Any:
    import torch
    from tensordict import TensorDict

    if isinstance(seen[0], dict):
        parts = {name: torch.from_numpy(np.stack([each[name] for each in seen])) for name in seen[0]}
        return TensorDict(parts, [len(seen)])
    return torch.from_numpy(np.stack(seen))
