"""PPO and DQN that learn from whole episodes which others have played, side by side where there are workers.

    model = make_learner(settings, env, frames=100, seed=0, episodes=played)
    model.learn(...)            # asks played(actor, number of the first) for some episodes, learns from them, and again

The rest is Stable-Baselines3's: what is computed from the episodes, hooks, logs, and when it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutReturn

from reelrl.agents.branching_dqn import BranchingDqn
from reelrl.agents.rollouts import PolicyActor, Trajectory

PlayEpisodes = Callable[[PolicyActor, int], Iterable[Trajectory]]
"""Some episodes from this number on, played by the actor as it stands."""


class EpisodePpo(PPO):  # type: ignore[misc]
    """PPO whose rollouts are whole episodes."""

    play: PlayEpisodes
    acting: Callable[[], PolicyActor]

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        del env, rollout_buffer, n_rollout_steps
        callback.on_rollout_start()
        played = list(_noted(self, callback))
        steps = sum(len(each.actions) for each in played)
        spaces = (self.observation_space, self.action_space)
        self.rollout_buffer = RolloutBuffer(steps, *spaces, self.device, gae_lambda=self.gae_lambda, gamma=self.gamma)
        for each in played:
            self._remember(each)
        # Every episode has ended: nothing follows the last one.
        self.rollout_buffer.compute_returns_and_advantage(torch.zeros(1, 1), np.ones(1))
        callback.on_rollout_end()
        return True

    def _remember(self, played: Trajectory) -> None:
        seen = torch.as_tensor(played.observations[:-1], device=self.device)
        with torch.no_grad():
            values, log_probs, _ = self.policy.evaluate_actions(seen, torch.as_tensor(played.actions))
        for number, action in enumerate(played.actions):
            self.rollout_buffer.add(
                played.observations[number, None],
                action[None],
                np.array([played.rewards[number]]),
                np.array([number == 0]),
                values[number],
                log_probs[number],
            )


class EpisodeDqn(BranchingDqn):
    """Branching DQN that takes in whole episodes, then makes as many gradient steps as their frames ask for."""

    play: PlayEpisodes
    acting: Callable[[], PolicyActor]

    def collect_rollouts(self, env: Any, callback: Any, train_freq: Any, replay_buffer: Any, **_: Any) -> RolloutReturn:
        del env
        callback.on_rollout_start()
        before, episodes = self.num_timesteps, 0
        for played in _noted(self, callback, self._on_step):
            last = len(played.actions) - 1
            for number, action in enumerate(played.actions):
                seen, ended = played.observations[number : number + 2, None], np.array([number == last])
                replay_buffer.add(seen[0], seen[1], action[None], np.array([played.rewards[number]]), ended, [{}])
            episodes += 1
        self.gradient_steps = max((self.num_timesteps - before) // train_freq.frequency, 1)
        self.dump_logs()
        callback.on_rollout_end()
        return RolloutReturn(self.num_timesteps - before, episodes, continue_training=True)


def _noted(model: Any, callback: Any, on_step: Callable[[], None] = lambda: None) -> Iterable[Trajectory]:
    """The next episodes; whoever listens hears of their steps as if they were played here."""
    for played in model.play(model.acting(), model._episode_num):
        model._episode_num += 1
        for info in played.infos:
            model.num_timesteps += 1
            callback.update_locals({"infos": [info]})
            callback.on_step()
            model._update_info_buffer([info], np.array(["episode" in info]))
            model._update_current_progress_remaining(model.num_timesteps, model._total_timesteps)
            on_step()
        yield played
