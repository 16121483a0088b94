"""Several players in one Doom match, as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium import spaces

from reelrl import seeding
from reelrl.act.doom.match import Match
from reelrl.act.doom.player_process import GOAL_REACHED, WENT_ON
from reelrl.act.doom.settings import VZCoopConfig
from reelrl.act.doom.shared_memory import COLUMN, FACTS
from reelrl.errors import ConfigError, GameError, MissingExtra
from reelrl.names import did_you_mean

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra("pettingzoo", "doom") from error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from reelrl.act.doom.settings import Rewards

    Observation = NDArray[np.uint8] | dict[str, NDArray[Any]]
    PerAgent = dict[str, Any]

ACTIONS = ("no-op", "forward", "turn left", "turn right", "strafe left", "strafe right", "attack", "use")

# What a player may know beside its picture -> the fact it is; which side it is on is no fact of the engine's.
AUX_FACTS: dict[str, str | None] = {
    "health": "HEALTH",
    "armor": "ARMOR",
    "ammo": "SELECTED_WEAPON_AMMO",
    "kills": "KILLCOUNT",
    "deaths": "DEATHCOUNT",
    "frags": "FRAGCOUNT",
    "x": "POSITION_X",
    "y": "POSITION_Y",
    "angle": "ANGLE",
    "team_id": None,
}
_COUNTERS = ("KILLCOUNT", "DEATHCOUNT", "FRAGCOUNT", "HITCOUNT", "DAMAGE_TAKEN")  # counted from the episode's start

_IS_COUNTER = np.array([name in _COUNTERS for name in FACTS])

# Counters, by the setting that weighs them. The engine counts kills for the level: every player has the team's.
_OF_EACH = {"hit": "HITCOUNT", "death": "DEATHCOUNT", "damage_taken": "DAMAGE_TAKEN", "scenario": "TOTAL_REWARD"}
_OF_ALL = {"kill": "KILLCOUNT"}
# Of two sides: who killed whom is counted for each player.
_OF_DUELLISTS = {"kill": "FRAGCOUNT", **_OF_EACH}


class VizDoomCoopParallelEnv(ParallelEnv):  # type: ignore[misc]
    """A team in one match, or two sides against each other; every player is a process, and all advance together.

    ## Observation
    uint8 pixels (frames, 3, height, width), the newest frame last; the first is repeated at reset. With
    `channels_last` (height, width, 3), and (frames, height, width, 3) where frames are stacked. With
    `aux_observations` a dict: "video", and each of them as float32 (1,).

    ## Action
    Discrete: no-op, forward, turn left, turn right, strafe left, strafe right, attack, use.

    ## Reward
    The team's, the same for everyone; `VZCoopConfig.rewards` weighs kills, hits, deaths, damage and the goal. With
    two sides each side's, by its frags in the place of kills, less the other side's: what one earns the other loses.

    ## End
    Terminates for all when the level is done. Truncates for all after `max_steps` or at the scenario's time limit.
    The dead come back after two tics and play on.

    ## Chance
    `reset(seed=...)` starts the engines anew, and with up to two players the episode repeats to the byte. With more the
    engine itself does not; nor does an episode that `reset()` without a seed begins in running engines.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "doom_coop_v0",
        "render_modes": ["rgb_array"],
        "is_parallelizable": True,
        "render_fps": 35,
    }
    render_mode = "rgb_array"

    def __init__(
        self,
        cfg: VZCoopConfig | None = None,
        frame_stack: int = 1,
        max_steps: int | None = None,
        *,
        aux_observations: Sequence[str] = (),
        channels_last: bool = False,
        sightings: bool = False,
    ) -> None:
        self.cfg = cfg or VZCoopConfig()
        _check_count("frame_stack", frame_stack)
        if max_steps is not None:
            _check_count("max_steps", max_steps)
        for name in aux_observations:
            if name not in AUX_FACTS:
                raise ConfigError(f"unknown aux observation {name!r}{did_you_mean(name, AUX_FACTS)}")
        self.frame_stack, self.max_steps = frame_stack, max_steps
        self.aux_observations, self.channels_last = tuple(aux_observations), channels_last
        self._with_sightings = sightings
        self.possible_agents = [f"player_{number}" for number in range(self.cfg.num_players)]
        self.agents: list[str] = []
        # One object per agent for good: their random states are seeded by whoever samples from them.
        self.observation_spaces = {agent: self._observation_space() for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(len(ACTIONS)) for agent in self.possible_agents}
        self._match: Match | None = None
        self._random = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    @property
    def pids(self) -> list[int]:
        """Process ids of the players, while a match is on."""
        return self._match.pids if self._match else []

    @property
    def ground_truth(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Facts (players, facts) and, where the environment was made with `sightings`, who is where (`shared_memory`):
        what no player may know, for oracles and for teachers.
        """
        if self._match is None or not self._with_sightings:
            raise GameError("there is no ground truth here; make the environment with sightings=True and call reset()")
        return self._match.facts, self._match.sightings

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[PerAgent, PerAgent]:  # noqa: ARG002
        """Begin an episode: with a seed in fresh engines, else in those that run."""
        if seed is not None:
            self._random = seeding.stream(seed, "doom")
        if seed is not None or self._match is None or not self._match.alive:
            self.close()
            seed = int(self._random.integers(2**31))
            self._match = Match(self.cfg, seed, sightings=self._with_sightings)
        else:
            self._match.new_episode()
        self.agents = list(self.possible_agents)
        self._steps = 0
        self._first = self._facts = self._match.facts
        self._counted = since_start(self._facts, self._first)
        self._frames = np.repeat(self._match.pictures[:, None], self.frame_stack, axis=1)
        return self._observations(), self._infos()

    def step(self, actions: Mapping[str, int]) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent, PerAgent]:
        """Hold every player's action for `skip` tics."""
        if self._match is None or not self.agents:
            raise GameError("no episode is on; call reset() first")
        outcome = self._match.step(self._checked(actions))
        self._steps += 1
        before, self._facts = self._facts, self._match.facts
        self._counted = since_start(self._facts, self._first)
        self._frames = np.concatenate([self._frames[:, 1:], self._match.pictures[:, None]], axis=1)
        terminated = outcome == GOAL_REACHED
        truncated = not terminated and (outcome != WENT_ON or self._steps == self.max_steps)
        rewards = player_rewards(before, self._facts, self.cfg, goal=terminated)
        answer = (
            self._observations(),
            dict(zip(self.agents, rewards.tolist(), strict=True)),
            dict.fromkeys(self.agents, terminated),
            dict.fromkeys(self.agents, truncated),
            self._infos(),
        )
        if terminated or truncated:
            self.agents = []
        return answer

    def render(self) -> NDArray[np.uint8]:
        """All players' newest views in one picture (height, width, 3), row by row."""
        if self._match is None:
            raise GameError("there is nothing to see yet; call reset() first")
        views = self._frames[:, -1].transpose(0, 2, 3, 1)
        columns = math.ceil(math.sqrt(len(views)))
        rows = math.ceil(len(views) / columns)
        _, height, width, _ = views.shape
        tiled = np.zeros((rows, columns, height, width, 3), np.uint8)
        tiled.reshape(-1, height, width, 3)[: len(views)] = views
        return tiled.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3)

    def close(self) -> None:
        """End all processes of the match. A second call does nothing."""
        match, self._match = self._match, None
        self.agents = []
        if match is not None:
            match.close()

    def _observation_space(self) -> spaces.Space[Any]:
        height, width = self.cfg.picture_size
        shape: tuple[int, ...] = (self.frame_stack, 3, height, width)
        if self.channels_last:
            shape = (height, width, 3) if self.frame_stack == 1 else (self.frame_stack, height, width, 3)
        video = spaces.Box(0, 255, shape, np.uint8)
        if not self.aux_observations:
            return video
        aux = {name: spaces.Box(-np.inf, np.inf, (1,), np.float32) for name in self.aux_observations}
        return spaces.Dict({"video": video, **aux})

    def _observations(self) -> PerAgent:
        return {agent: self._observation(number) for number, agent in enumerate(self.possible_agents)}

    def _observation(self, number: int) -> Observation:
        video: NDArray[np.uint8] = self._frames[number]
        if self.channels_last:
            video = np.ascontiguousarray(video.transpose(0, 2, 3, 1))
            video = video[0] if self.frame_stack == 1 else video
        if not self.aux_observations:
            return video
        aux = {name: np.array([self._aux(number, name)], np.float32) for name in self.aux_observations}
        return {"video": video, **aux}

    def _aux(self, number: int, name: str) -> float:
        fact = AUX_FACTS[name]
        return float(number // self.cfg.team_size) if fact is None else self._fact(number, fact)

    def _fact(self, number: int, name: str) -> float:
        return float(self._counted[number, COLUMN[name]])

    def _infos(self) -> PerAgent:
        return {agent: self._info(number) for number, agent in enumerate(self.possible_agents)}

    def _info(self, number: int) -> dict[str, Any]:
        tics = int(self._fact(number, "EPISODE_TIME"))
        return {
            "tic": tics,
            "time_s": tics / self.cfg.ticrate,
            "health": self._fact(number, "HEALTH"),
            "alive": not self._fact(number, "DEAD"),
            "kills": int(self._fact(number, "KILLCOUNT")),
            "deaths": int(self._fact(number, "DEATHCOUNT")),
            "frags": int(self._fact(number, "FRAGCOUNT")),
            "hits": int(self._fact(number, "HITCOUNT")),
            "damage_taken": self._fact(number, "DAMAGE_TAKEN"),
            "position": tuple(self._fact(number, f"POSITION_{axis}") for axis in "XYZ"),
            "angle": self._fact(number, "ANGLE"),
        }

    def _checked(self, actions: Mapping[str, int]) -> list[int]:
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ConfigError(f"no action for {', '.join(missing)}; every player needs one each step")
        strange = [agent for agent in actions if agent not in self.agents]
        if strange:
            raise ConfigError(
                f"an action for {', '.join(map(str, strange))}, who does not play; the players are {self.agents}"
            )
        return [_action(agent, actions[agent]) for agent in self.agents]


def player_rewards(
    before: NDArray[np.float64], after: NDArray[np.float64], config: VZCoopConfig, *, goal: Any
) -> NDArray[np.float64]:
    """(..., players): what each of them earns by the step between two (..., players, facts) tables."""
    if config.sides == 1:
        earned = team_reward(before, after, config.rewards, goal=goal)[..., None]
        return np.broadcast_to(earned, before.shape[:-1])
    gained = after - before
    points = sum(getattr(config.rewards, name) * gained[..., COLUMN[fact]] for name, fact in _OF_DUELLISTS.items())
    ours, theirs = points[..., : config.team_size].sum(-1), points[..., config.team_size :].sum(-1)
    return np.repeat(np.stack([ours - theirs, theirs - ours], -1), config.team_size, -1)


def team_reward(
    before: NDArray[np.float64], after: NDArray[np.float64], weights: Rewards, *, goal: Any
) -> NDArray[np.float64]:
    """What every player of the team earns by the step between two (..., players, facts) tables: the same for all."""
    gained = after - before
    earned = sum(getattr(weights, name) * gained[..., COLUMN[fact]].sum(-1) for name, fact in _OF_EACH.items())
    earned += sum(getattr(weights, name) * gained[..., COLUMN[fact]].max(-1) for name, fact in _OF_ALL.items())
    return np.asarray(earned + weights.goal * goal)


def since_start(facts: NDArray[np.float64], first: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., facts) with the counters as from the episode's first facts on."""
    return facts - _IS_COUNTER * first


def _action(agent: str, value: Any) -> int:
    try:
        number = operator.index(value if not isinstance(value, np.ndarray) else value.item())
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number < len(ACTIONS):
        meanings = ", ".join(f"{index} {name}" for index, name in enumerate(ACTIONS))
        raise ConfigError(f"{agent}: action {value!r} is none of {meanings}")
    return number


def _check_count(name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} is {value!r}; give a whole number, 1 or more")
