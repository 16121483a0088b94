"""Learners solve what has a known answer, and what they learned acts the same without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import DiscretizeAction
from stable_baselines3.common.logger import Logger

from reelrl.agents.branching_dqn import BranchingNetwork
from reelrl.agents.learners import DqnTerms, LearnerSettings, PpoTerms, make_learner, policy_of
from reelrl.agents.training import vectorise
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import policy_file
from tests.agents.worlds import Bandit, Dial

if TYPE_CHECKING:
    from pathlib import Path

PPO = LearnerSettings(
    algorithm="ppo",
    learning_rate=1e-2,
    batch_size=128,
    n_steps=32,
    hidden=(32,),
    discount=0.0,
    ppo=PpoTerms(epochs=4),
)
DQN = LearnerSettings(
    algorithm="dqn",
    learning_rate=5e-3,
    hidden=(32,),
    discount=0.5,
    dqn=DqnTerms(starts=100, train_every=1, target_every=80, explore_share=0.5),
)


def trained(settings: LearnerSettings, env: Any, steps: int, seed: int, *more: Any) -> Any:
    model = make_learner(settings, vectorise([env, *more]), frames=8, seed=seed)
    model.set_logger(Logger(None, []))
    return model.learn(steps)


def share_right(act: Any, options: tuple[int, ...] = (4, 4, 4)) -> float:
    env = Bandit(options, length=50)
    observation, _ = env.reset(seed=99)
    rewards = []
    for _ in range(50):
        observation, reward, *_ = env.step(act(observation))
        rewards.append(reward)
    return float(np.mean(rewards))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("settings", [PPO, DQN], ids=["ppo", "dqn"])
def test_a_bandit_with_known_answers_is_solved(settings: LearnerSettings, seed: int) -> None:
    model = trained(settings, Bandit(), 5000, seed, *(Bandit() for _ in range(7)))
    assert share_right(policy_of(model).act) > 0.97


@pytest.mark.parametrize("settings", [PPO, DQN], ids=["ppo", "dqn"])
def test_choices_may_have_different_numbers_of_options(settings: LearnerSettings) -> None:
    model = trained(settings, Bandit((2, 5, 3)), 300, 0)
    look = np.array([1.0, -1.0, 1.0], np.float32)
    action = model.predict(look, deterministic=True)[0]
    assert Bandit((2, 5, 3)).action_space.contains(action)
    assert np.array_equal(policy_of(model).act(look), action)


@pytest.mark.parametrize("settings", [PPO, DQN], ids=["ppo", "dqn"])
def test_saved_policies_act_as_the_learner_does(settings: LearnerSettings, tmp_path: Path) -> None:
    model = trained(settings, Bandit(), 200, 0)
    policy_of(model, clip="street").save(tmp_path / "p.safetensors")
    policy = policy_file.load(tmp_path / "p.safetensors")
    assert policy.facts == {"clip": "street"}
    assert (policy.inputs, policy.choices) == (3, 3)
    for look in np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32):
        assert np.array_equal(policy.act(look), model.predict(look, deterministic=True)[0])
    with pytest.raises(ConfigError, match="5 numbers"):
        policy.act(np.zeros(5, np.float32))


def test_continuous_policies_stay_in_range(tmp_path: Path) -> None:
    model = trained(PPO, Dial(), 128, 0)
    policy_of(model).save(tmp_path / "p.safetensors")
    policy = policy_file.load(tmp_path / "p.safetensors")
    for look in np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32):
        np.testing.assert_allclose(policy.act(look * 50), model.predict(look * 50, deterministic=True)[0], atol=1e-5)
        assert model.action_space.contains(policy.act(look * 50))


def test_dqn_refuses_continuous_actions_and_takes_their_levels() -> None:
    with pytest.raises(ConfigError, match="DQN chooses among options"):
        make_learner(DQN, vectorise([Dial()]), frames=5, seed=0)
    env = DiscretizeAction(Dial(), 7, multidiscrete=True)
    levels = tuple(float(level) for level in env.bin_centers[0])
    policy = policy_of(trained(DQN, env, 300, 0), levels=levels)
    look = np.array([0.5, -0.5], np.float32)
    assert set(policy.act(look).tolist()) <= set(np.asarray(levels, np.float32).tolist())


@pytest.mark.parametrize("damage", ["text", "activation", "layer"])
def test_files_that_hold_no_policy_are_refused(damage: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "bad.safetensors"
    good = '{"activation": "tanh", "options": [2], "levels": [], "low": [], "high": [], "facts": {}}'
    if damage == "text":
        path.write_bytes(b"not a policy")
    else:
        wrong = good.replace("tanh", "exec") if damage == "activation" else good.replace("[2]", "[3]")
        layer = {"layers.0.weight": np.zeros((2, 4), np.float32), "layers.0.bias": np.zeros(2, np.float32)}
        save_file(layer, path, {"policy": wrong})
    with pytest.raises(CheckpointError):
        policy_file.load(path)


def test_q_values_are_centred_on_the_value_and_missing_options_are_never_best() -> None:
    network = BranchingNetwork(3, [2, 4], (8,))
    values = network(torch.rand(5, 3)).detach()
    assert values.shape == (5, 2, 4)
    assert torch.isneginf(values[:, 0, 2:]).all()
    torch.testing.assert_close(values[:, 0, :2].mean(-1), values[:, 1].mean(-1))


def test_each_choice_explores_on_its_own() -> None:
    model = make_learner(DQN, vectorise([Bandit((7,) * 50)]), frames=8, seed=0)
    model.exploration_rate = 0.5
    look = np.ones((1, 50), np.float32)
    greedy = model.predict(look, deterministic=True)[0]
    same = np.mean([(model.predict(look)[0] == greedy).mean() for _ in range(40)])
    assert same == pytest.approx(0.5 + 0.5 / 7, abs=0.05)


@pytest.mark.parametrize("changes", [{"n_steps": 1}, {"batch_size": 1}, {"learning_rate": 0.0}])
def test_settings_that_cannot_learn_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        LearnerSettings(**changes)


def test_ppo_takes_the_episode_as_its_rollout() -> None:
    model = make_learner(LearnerSettings(ppo=PpoTerms(epochs=1)), vectorise([Bandit()]), frames=8, seed=0)
    assert (model.n_steps, model.batch_size) == (8, 8)
