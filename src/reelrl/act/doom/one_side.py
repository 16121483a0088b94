"""Side A of a match of two sides, as an environment of its own: side B is part of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pettingzoo import ParallelEnv

from reelrl import seeding
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import spaces
    from numpy.typing import NDArray

    from reelrl.act.doom.env import PerAgent, VizDoomCoopParallelEnv
    from reelrl.act.doom.teams import Team


class OneSide(ParallelEnv):  # type: ignore[misc]
    """The players of side A; `opponent` plays the others.

    env = OneSide(VizDoomCoopParallelEnv(VZCoopConfig(config_path="duel", sides=2)), BlindTeam("sweep"))
    """

    def __init__(self, env: VizDoomCoopParallelEnv, opponent: Team) -> None:
        if env.cfg.sides != 2:
            raise ConfigError(f"sides is {env.cfg.sides}, so nobody is there to play against; give 2")
        self._env, self._opponent = env, opponent
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self.possible_agents = env.possible_agents[: env.cfg.team_size]
        self.agents: list[str] = []
        self._theirs: PerAgent = {}
        self._episode = 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._env.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._env.action_space(agent)

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[PerAgent, PerAgent]:
        """Begin an episode, and with a seed the opponent's chance anew."""
        observations, infos = self._env.reset(seed, options)
        self._episode = self._episode + 1 if seed is None else seed
        self._opponent.reset(seeding.seed_for(self._episode, "opponent"))
        self._theirs = self._of_opponent(observations)
        self.agents = list(self.possible_agents)
        return self._ours(observations), self._ours(infos)

    def step(self, actions: Mapping[str, int]) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent, PerAgent]:
        """Hold every player's action for `skip` tics, the opponent's too."""
        theirs = self._opponent.act(self._theirs) if self.agents else {}
        answer = self._env.step({**actions, **theirs})
        observations, rewards, terminated, truncated, infos = map(self._ours, answer)
        self._theirs = self._of_opponent(answer[0])
        self.agents = [agent for agent in self._env.agents if agent in self.possible_agents]
        return observations, rewards, terminated, truncated, infos

    def render(self) -> NDArray[Any]:
        """All players' views, the opponent's too."""
        return self._env.render()

    def close(self) -> None:
        self.agents = []
        self._env.close()

    def _ours(self, by_agent: PerAgent) -> PerAgent:
        return {agent: by_agent[agent] for agent in self.possible_agents}

    def _of_opponent(self, by_agent: PerAgent) -> PerAgent:
        return {agent: value for agent, value in by_agent.items() if agent not in self.possible_agents}
