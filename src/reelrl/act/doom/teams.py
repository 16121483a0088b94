"""Who plays: by chance, by a simple rule, by all that is true, or by other views; and whole episodes of any team."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reelrl import seeding
from reelrl.act.doom.env import ACTIONS
from reelrl.act.doom.oracle import OracleRule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reelrl.act.doom.env import VizDoomCoopParallelEnv


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


class TwoSides:
    """Side A and side B of a match, as one team of all players."""

    def __init__(self, one: Team, other: Team) -> None:
        self._one, self._other = one, other

    def reset(self, seed: int) -> None:
        self._one.reset(seed)
        self._other.reset(seeding.seed_for(seed, "side B"))  # or both would draw alike

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        agents = list(observations)
        half = len(agents) // 2
        ours, theirs = ({agent: observations[agent] for agent in part} for part in (agents[:half], agents[half:]))
        return {**self._one.act(ours), **self._other.act(theirs)}


class OracleTeam:
    """The rule that knows where everybody is, in an environment that was made with `sightings`; a side, or a team."""

    def __init__(self, env: VizDoomCoopParallelEnv) -> None:
        self._env = env
        self._rule = OracleRule(env.cfg.num_players, env.cfg.config_path, env.cfg.sides)

    def reset(self, seed: int) -> None:
        del seed
        self._rule.reset()

    def act(self, observations: Mapping[str, Any]) -> dict[str, int]:
        actions = dict(zip(self._env.possible_agents, self._rule.act(*self._env.ground_truth), strict=True))
        return {agent: actions[agent] for agent in observations}


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


@dataclass(frozen=True)
class PlayedEpisode:
    """How one went: the sum of the team's rewards, steps, and the last infos' counters summed over players. Of two
    sides it is side A's, and its kills are frags.
    """

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
        reward += float(np.mean(list(rewards.values())[: env.cfg.team_size]))
        steps += 1
    ours = list(infos.values())[: env.cfg.team_size]
    # The engine counts kills for the team, and frags for each player.
    kills = sum(info["frags"] for info in ours) if env.cfg.sides == 2 else max(info["kills"] for info in ours)
    return PlayedEpisode(seed, reward, steps, kills, sum(info["deaths"] for info in ours))


def _black(view: Any) -> Any:
    return {**view, "video": np.zeros_like(view["video"])} if isinstance(view, dict) else np.zeros_like(view)
