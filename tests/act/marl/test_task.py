"""Doom as a BenchMARL task: specs without engines, steps with real ones, and frames encoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torchrl.envs import Compose, TransformedEnv

from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING
from reelrl.act.marl.benchmarl.parts import Parts
from reelrl.act.marl.benchmarl.rollouts import GROUP
from reelrl.act.marl.benchmarl.task import DoomPettingZooTask
from reelrl.act.video.encoder import frozen_video_encoder
from reelrl.errors import ConfigError
from tests.act.marl.small_training import small_training

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

FRAMES = {"model_type": "video-transformer", "embed_dim": 8, "heads": 2, "depth": 1, "freeze_backbone": True}


def make(task: Any, seed: int = 0) -> Any:
    env = task.get_env_fun(num_envs=1, continuous_actions=False, seed=seed, device="cpu")()
    return TransformedEnv(env, Compose(*task.get_env_transforms(env)))


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    envs: list[Any] = []
    yield envs
    for env in envs:
        env.close()


def test_specs_need_no_engine() -> None:
    member: Any = DoomPettingZooTask.DOOM_PZ
    task = member.get_from_yaml()
    env = make(task)
    assert env.base_env._env.pids == []
    assert task.group_map(env) == {GROUP: ["player_0", "player_1"]}
    assert tuple(task.observation_spec(env)[GROUP, "observation"].shape) == (2, 2, 3, 48, 64)
    assert task.action_spec(env)[GROUP, "action"].space.n == 8
    assert task.max_steps(env) == task.settings.max_steps
    assert (task.state_spec(env), task.action_mask_spec(env)) == (None, None)
    assert (task.supports_discrete_actions(), task.supports_continuous_actions()) == (True, False)


def test_a_rollout_ends_at_max_steps_with_the_teams_reward_for_all(closing: list[Any]) -> None:
    env = make(Parts(small_training()).task)
    closing.append(env)
    rollout = env.rollout(50)
    assert rollout.shape == (8,)
    assert rollout["next", "done"][:, 0].tolist() == [False] * 7 + [True]
    assert rollout["next", "truncated"][-1].item()
    reward = rollout["next", GROUP, "reward"]
    assert torch.equal(reward[:, 0], reward[:, 1])
    assert rollout[GROUP, "info", "health"][0].tolist() == [100.0, 100.0]


def test_a_frozen_encoder_sees_every_frame_once(closing: list[Any]) -> None:
    training = small_training(encoder=FRAMES)
    env = make(Parts(training).task)
    closing.append(env)
    transform = env.transform[0]
    encoder = transform._encoder[0]
    seen: list[int] = []
    hook = encoder.patches.register_forward_hook(lambda _, given, __: seen.append(len(given[0])))
    rollout = env.rollout(5)
    hook.remove()
    assert sum(seen) == 2 * (1 + 5)  # two players; the first picture, then one a step
    assert (GROUP, "observation") not in rollout.keys(True)
    rows = rollout[GROUP, EMBEDDING]
    assert rows.shape == (5, 2, 2, 8)
    assert torch.equal(rows[1:, :, 0], rows[:-1, :, 1])  # what was new is old a step later
    assert torch.equal(rollout["next", GROUP, EMBEDDING][:-1], rows[1:])


def test_actor_and_critic_that_freeze_the_same_encoder_have_it_run_at_collection() -> None:
    shared = Parts(small_training(encoder=FRAMES)).task.settings.frozen_encoder
    assert shared == FRAMES
    assert Parts(small_training()).task.settings.frozen_encoder is None
    frozen_video_encoder.cache_clear()


def test_settings_of_the_task_are_checked() -> None:
    with pytest.raises(ConfigError, match="max_steps is 0"):
        Parts(small_training({"max_steps": 0}))
