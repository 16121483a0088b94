"""A learner that was saved and made again goes on to the same bits."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.agents.checkpointing import export, restore
from reelrl.agents.learners import DqnTerms, LearnerSettings, PpoTerms, make_learner
from reelrl.agents.training import Retraceable, Training, vectorise
from reelrl.errors import CheckpointError
from reelrl.runs.folder import Run
from reelrl.runs.interrupts import Interrupted
from tests.agents.worlds import Bandit

if TYPE_CHECKING:
    from pathlib import Path

# A rollout of 10 and episodes of 8: checkpoints fall into the middle of episodes.
PPO = LearnerSettings(algorithm="ppo", n_steps=10, hidden=(8,), ppo=PpoTerms(epochs=2))
DQN = LearnerSettings(
    algorithm="dqn", batch_size=8, hidden=(8,), dqn=DqnTerms(buffer=50, starts=20, target_every=12, train_every=5)
)
BOTH = pytest.mark.parametrize("settings", [PPO, DQN], ids=["ppo", "dqn"])


@dataclass(frozen=True)
class Nothing:
    """Settings of a run that has none."""


def make_training(run: Run, settings: LearnerSettings, envs: int = 2, on_step: Any = lambda _: None) -> Training:
    model = make_learner(settings, vectorise([Bandit() for _ in range(envs)]), frames=8, seed=3)
    return Training(
        model,
        run,
        evaluate=lambda: {"eval/reward": -float(model.num_timesteps)},
        on_best=lambda step, figures: run.log_episode({"best": step, **figures}),
        on_step=on_step,
        on_episode=lambda step, info: run.log_episode({"step": step, "reward": info["episode"]["r"]}),
        eval_every=40,
        save_every=20,
    )


def new_run(root: Path) -> Run:
    return Run.create(root, Nothing(), stage="test", name="test", seed=3)


def everything(training: Training) -> dict[str, Any]:
    tensors, state = export(training.model)
    for env in state["envs"]:
        env.pop("elapsed_s")
    for episode in state["recent"]:
        episode.pop("t")
    state["unlogged"] = {name: value for name, value in state["unlogged"].items() if not name.startswith("time/")}
    return {**{name: array.tolist() for name, array in tensors.items()}, "state": json.dumps(state)}


def logs(run: Run) -> list[Any]:
    return [list(run.metrics()), list(run.episodes())]


@BOTH
def test_n_and_n_more_equals_twice_n_bit_for_bit(settings: LearnerSettings, tmp_path: Path) -> None:
    with new_run(tmp_path / "whole") as run:
        whole = make_training(run, settings)
        whole.learn(200)
        expected, expected_logs = everything(whole), logs(run)

    class Killed(Exception):
        pass

    def kill(step: int) -> None:
        if step >= 130:
            raise Killed

    with new_run(tmp_path / "halves") as run, pytest.raises(Killed):
        make_training(run, settings, on_step=kill).learn(200)
    np.random.seed(0)
    with Run.open(tmp_path / "halves" / "0001") as run:
        again = make_training(run, settings)
        assert again.resume()
        assert 0 < again.model.num_timesteps < 130
        again.learn(200)
        assert everything(again) == expected
        assert logs(run) == expected_logs


@BOTH
def test_ctrl_c_finishes_the_rollout_and_can_be_resumed_exactly(settings: LearnerSettings, tmp_path: Path) -> None:
    with new_run(tmp_path / "whole") as run:
        whole = make_training(run, settings)
        whole.learn(160)
        expected = everything(whole)

    def press(step: int) -> None:
        if step == 74:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with new_run(tmp_path / "halves") as run, pytest.raises(Interrupted, match="step 80"):
        make_training(run, settings, on_step=press).learn(160)
    assert signal.getsignal(signal.SIGINT) is before
    with Run.open(tmp_path / "halves" / "0001") as run:
        again = make_training(run, settings)
        assert again.resume()
        assert again.model.num_timesteps == 80
        again.learn(160)
        assert everything(again) == expected


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    def press(step: int) -> None:
        if step == 26:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with new_run(tmp_path) as run:
        training = make_training(run, PPO, on_step=press)
        with pytest.raises(KeyboardInterrupt) as stopped:
            training.learn(160)
        assert not isinstance(stopped.value, Interrupted)
        assert training.model.num_timesteps == 26


def test_a_resumed_run_has_the_best_policy_of_its_checkpoint_and_not_of_its_future(tmp_path: Path) -> None:
    """A run that ends is evaluated once more; made longer, it must not keep what a longer run would not have seen."""
    scores = {40: 5.0, 60: 9.0, 80: 4.0, 100: 3.0}

    def train(root: Path, steps: int) -> bytes:
        with Run.open(root / "0001") if root.exists() else new_run(root) as run:
            training = make_training(run, PPO, envs=1)
            training.best_file = best = run.artifacts / "best"
            training.evaluate = lambda: {"eval/reward": scores[training.model.num_timesteps]}
            training.on_best = lambda step, _: best.write_bytes(str(step).encode())  # type: ignore[assignment]
            training.resume()
            training.learn(steps)
            training.assess()
            return best.read_bytes()

    assert train(tmp_path / "whole", 100) == b"40"
    assert train(tmp_path / "halves", 60) == b"60"
    assert train(tmp_path / "halves", 100) == b"40"


def test_a_run_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    with new_run(tmp_path) as run:
        assert not make_training(run, PPO).resume()


def test_evaluations_come_when_they_are_due(tmp_path: Path) -> None:
    with new_run(tmp_path) as run:
        make_training(run, PPO, envs=1).learn(100)
        assert [line["step"] for line in run.metrics() if "eval/reward" in line] == [40, 80]
        assert [line["best"] for line in run.episodes() if "best" in line] == [40]


def test_retracing_gives_the_same_observation_and_the_same_future() -> None:
    env = Retraceable(Bandit())
    env.reset(seed=5)
    for _ in range(9):  # over the end of one episode, into the next
        observation, _, done, _, _ = env.step(env.action_space.sample())
        if done:
            observation, _ = env.reset()
    beginning, actions = env.trace()
    other = Retraceable(Bandit())
    other.reset(seed=77)
    assert np.array_equal(other.retrace(json.loads(json.dumps(beginning)), actions), observation)
    for _ in range(5):
        action = env.action_space.sample()
        assert np.array_equal(other.step(action)[0], env.step(action)[0])


def test_ended_episodes_are_told_with_their_record() -> None:
    env = Retraceable(Bandit(length=2))
    env.reset(seed=0)
    assert "episode" not in env.step(np.array([0, 0, 0]))[4]
    info = env.step(np.array([1, 1, 1]))[4]
    assert info["episode"]["l"] == 2
    assert info["record"] == {"steps": 2}


def test_another_environment_than_the_saved_one_is_noticed(tmp_path: Path) -> None:
    with new_run(tmp_path) as run:
        training = make_training(run, PPO)
        training.learn(20)
        tensors, state = export(training.model)
        tensors["last.observations"] = tensors["last.observations"] + 1
        with pytest.raises(CheckpointError, match="another observation"):
            restore(training.model, tensors, state)
