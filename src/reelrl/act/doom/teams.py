"""Who plays: a trained team, one that acts by chance, one that follows a simple rule; and whole episodes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reelrl import seeding
from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.oracle import OracleRule
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


# Rules without eyes: what a player does over and over; players take the patterns in turn.
BLIND_RULES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sweep": (("attack", "turn left"), ("attack", "turn right")),
    "fire": (("attack",),),
    "march": (("forward", "forward", "turn left", "attack"), ("forward", "forward", "turn right", "attack")),
    "hold": (("use", "no-op"), ("attack", "turn left", "attack", "turn right")),
}


class BlindTeam:
    """A rule without eyes, by its name in `BLIND_RULES`."""

    def __init__(self, rule: str) -> None:
        self._patterns = [[ACTIONS.index(name) for name in pattern] for pattern in BLIND_RULES[rule]]

    def reset(self, seed: int) -> None:
        del seed
        self._steps = -1

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        self._steps += 1
        patterns = [self._patterns[number % len(self._patterns)] for number in range(len(observations))]
        return {
            agent: pattern[self._steps % len(pattern)] for agent, pattern in zip(observations, patterns, strict=True)
        }


class OracleTeam:
    """The rule that knows where everybody is, in an environment that was made with `sightings`."""

    def __init__(self, env: VizDoomCoopParallelEnv) -> None:
        self._env = env
        self._rule = OracleRule(env.cfg.num_players, env.cfg.config_path)

    def reset(self, seed: int) -> None:
        del seed
        self._rule.reset()

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        return dict(zip(observations, self._rule.act(*self._env.ground_truth), strict=True))


class AlteredViews:
    """A team that is shown something else than what its players see: "black", or "swapped" among them."""

    def __init__(self, team: Team, how: str) -> None:
        self._team, self._how = team, how

    def reset(self, seed: int) -> None:
        self._team.reset(seed)

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        views = list(observations.values())
        shown = [_black(view) for view in views] if self._how == "black" else [*views[1:], views[0]]
        return self._team.act(dict(zip(observations, shown, strict=True)))


class TrainedTeam:
    """The players of a run, as its last checkpoint has them; `greedy` ones take the best action instead of drawing."""

    def __init__(self, run: RunFolder, *, greedy: bool = False) -> None:
        from reelrl.act.marl.benchmarl.train import DoomExperiment
        from reelrl.act.marl.settings import on_cpu

        checkpoint = require_checkpoint(run)
        # Encoders that are frozen are the model's own here: nobody collects.
        experiment = DoomExperiment(on_cpu(settings_of(run)), run.seed, encode_at_collection=False)
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


def make_env(settings: DoomTraining, *, sightings: bool = False) -> VizDoomCoopParallelEnv:
    """The match of a training, without BenchMARL around it."""
    from reelrl.act.marl.task_config import DoomTaskConfig
    from reelrl.settings import config

    return config.from_mapping(DoomTaskConfig, settings.task, foreign=True).make_env(sightings=sightings)


def _black(view: Any) -> Any:
    return {**view, "video": np.zeros_like(view["video"])} if isinstance(view, dict) else np.zeros_like(view)


def _stacked(seen: list[Any]) -> Any:
    import torch
    from tensordict import TensorDict

    if isinstance(seen[0], dict):
        parts = {name: torch.from_numpy(np.stack([each[name] for each in seen])) for name in seen[0]}
        return TensorDict(parts, [len(seen)])
    return torch.from_numpy(np.stack(seen))
