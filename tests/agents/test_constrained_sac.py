"""Constrained SAC finds the best that a limit allows, moves its prices by the rule, and survives a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import floats, lists, sampled_from

from reelrl.agents.checkpointing import export, restore
from reelrl.agents.constrained_sac import ConstrainedSac, Multipliers, MultiplierTerms, costs_of
from reelrl.agents.episodic import OneAtATime, SacSettings, acting, actor_policy, learn_episode, make_sac
from reelrl.agents.rollouts import play_episode
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import policy_file
from reelrl.runs.folder import Run, RunFolder
from tests.agents.worlds import Allowance
from tests.runs.outcome import outcome
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PRICE, DISCOUNT, GOP = 0.5, 0.8, 8
MEAN_COST = (1 - PRICE) ** 2 / 2
BEST_REWARD = (1 - PRICE) ** 3 / 6 + PRICE * (1 - PRICE) ** 2 / 2
TINY = SacSettings(batch_size=16, hidden=(8,), starts=20, discount=DISCOUNT, cost_limits=(GOP * MEAN_COST,))


def make_allowance(seed: int, settings: SacSettings = TINY) -> ConstrainedSac:
    return make_sac(settings, OneAtATime(Allowance()), seed=seed)


# Both forms of the price, and another start.
@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_optimum_under_a_limit_is_found(seed: int) -> None:
    form = ("pid", "gradient", "pid")[seed]
    terms = MultiplierTerms(form=form, integral=0.0125, proportional=0.06, derivative=0.06)  # type: ignore[arg-type]
    settings = SacSettings(
        batch_size=64,
        hidden=(32, 32),
        starts=128,
        discount=DISCOUNT,
        updates=0.25,
        tau=0.02,
        temperature=0.01,
        target_entropy=-3.0,
        cost_limits=(GOP * MEAN_COST,),
        multiplier=terms,
    )
    model = make_allowance(seed, settings)
    played = [learn_episode(model, settings.updates, seed=1000 * seed + n, options={}) for n in range(350)]
    late = [step for episode in played[250:] for step in episode]
    # On average over the policies of the end: a single one swings around the limit.
    assert np.mean([info["cost"] for _, info in late]) == pytest.approx(MEAN_COST, abs=0.01)
    assert np.mean([reward for reward, _ in late]) == pytest.approx(BEST_REWARD, abs=0.008)
    # A cost is felt one step later, when it weighs less by the discount: its price is as much higher.
    assert model.multipliers.value.item() == pytest.approx(PRICE / DISCOUNT, rel=0.2)


@given(
    form=sampled_from(["gradient", "pid"]),
    costs=lists(floats(-1e3, 1e3), min_size=1, max_size=30),
    limit=floats(0, 10),
)
def test_prices_stay_between_zero_and_the_ceiling(form: Any, costs: list[float], limit: float) -> None:
    prices = Multipliers((limit,), MultiplierTerms(form=form, ceiling=5.0))
    for cost in costs:
        prices.update(torch.tensor([cost], dtype=torch.float64))
        assert 0 <= prices.value.item() <= 5
        assert 0 <= prices.integral.item() <= 5


def test_the_gradient_form_adds_the_error_times_its_rate() -> None:
    prices = Multipliers((1.0,), MultiplierTerms(form="gradient", integral=0.1, start=0.5))
    prices.update(torch.tensor([3.0]))
    assert prices.value.item() == pytest.approx(0.7)
    prices.update(torch.tensor([-99.0]))
    assert prices.value.item() == 0


def test_a_long_excess_is_forgiven_as_fast_as_a_short_one_at_the_ceiling() -> None:
    def gops_to_fall(excess_gops: int) -> int:
        prices = Multipliers((0.0,), MultiplierTerms(form="gradient", integral=0.5, ceiling=2.0))
        for _ in range(excess_gops):
            prices.update(torch.tensor([1.0]))
        gops = 0
        while prices.value.item() > 0:
            prices.update(torch.tensor([-1.0]))
            gops += 1
        return gops

    assert gops_to_fall(10) == gops_to_fall(1000)


def test_pid_answers_a_rising_cost_sooner_than_the_gradient() -> None:
    pid = Multipliers((0.0,), MultiplierTerms(form="pid"))
    gradient = Multipliers((0.0,), MultiplierTerms(form="gradient"))
    for prices in (pid, gradient):
        prices.update(torch.tensor([1.0]))
    assert pid.value.item() > gradient.value.item() > 0


def test_prices_move_at_the_end_of_each_gop_by_what_it_cost() -> None:
    model = make_allowance(0)
    seen: list[float] = []
    model.multipliers.update = lambda costs: seen.append(costs.item())  # type: ignore[method-assign]
    steps = [learn_episode(model, 1.0, seed=number, options={}) for number in range(4)]
    costs = np.array([info["cost"] for episode in steps for _, info in episode])
    # Two GOPs per episode of 16; the first 20 steps were random and say nothing.
    assert seen == pytest.approx([costs[20:24].sum(), *costs[24:].reshape(-1, GOP).sum(1)], rel=1e-5)


@pytest.mark.parametrize("info", [{}, {"cost": float("nan")}, {"cost": [1.0, 2.0]}])
def test_a_step_without_the_costs_asked_for_is_refused(info: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="finite cost"):
        costs_of(info, 1)


def test_several_costs_have_a_price_each() -> None:
    class TwoCosts(Allowance):
        def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            *rest, info = super().step(action)
            return (*rest, {**info, "cost": [info["cost"], 0.0]})  # type: ignore[return-value]

    model = ConstrainedSac("MlpPolicy", OneAtATime(TwoCosts()), limits=(0.1, 0.1), learning_starts=0, seed=0)
    model.learn(32)
    assert model.multipliers.value[0] > 0 == model.multipliers.value[1]


def test_the_policy_file_acts_as_the_actor_does_for_less_time(tmp_path: Path) -> None:
    model = make_allowance(0)
    for number in range(6):
        learn_episode(model, 1.0, seed=number, options={})
    actor_policy(model, stage="test").save(tmp_path / "actor.safetensors")
    policy = policy_file.load(tmp_path / "actor.safetensors")
    seen = np.random.default_rng(0).uniform(0, 1, (200, 2)).astype(np.float32)
    expected = model.predict(seen, deterministic=True)[0]
    started_s = time.thread_time()
    acted = [policy.act(each) for each in seen]
    by_file_s = time.thread_time() - started_s
    for each in seen:
        model.predict(each, deterministic=True)
    assert by_file_s < time.thread_time() - started_s - by_file_s
    np.testing.assert_allclose(np.stack(acted), expected, atol=1e-6)


def test_rollouts_draw_as_the_actor_does_and_follow_from_the_seed_alone() -> None:
    model = make_allowance(0)
    for number in range(6):
        learn_episode(model, 1.0, seed=number, options={})
    actor, rng, seen = acting(model), np.random.default_rng(0), np.array([0.3, 0.8], np.float32)
    assert actor.random_steps == 0
    drawn = np.arctanh([actor.draw(seen, rng).item() for _ in range(4000)])
    mean, log_std, _ = model.actor.get_action_dist_params(torch.from_numpy(seen[None]))
    deviation = float(log_std.exp().item())
    assert drawn.mean() == pytest.approx(mean.item(), abs=4 * deviation / 4000**0.5)
    assert drawn.std() == pytest.approx(deviation, rel=0.05)
    first, again = (play_episode(Allowance(), actor, seed=5, options={}) for _ in range(2))
    assert np.array_equal(first.actions, again.actions)
    assert first.rewards == again.rewards
    other = play_episode(Allowance(), actor, seed=6, options={})
    assert not np.array_equal(first.actions, other.actions)


def test_a_checkpoint_of_another_learner_is_refused() -> None:
    tensors, state = export(make_allowance(0))
    with pytest.raises(CheckpointError, match="another learner"):
        restore(make_allowance(0, SacSettings(hidden=(4,))), tensors, state)


def test_the_buffer_stays_out_on_demand() -> None:
    model = make_allowance(0)
    learn_episode(model, 1.0, seed=0, options={})
    assert not any(name.startswith("replay.") for name in export(model, replay=False)[0])
    assert export(model)[0]["replay.costs"].shape == (16, 1, 1)


# -- killed and resumed ----------------------------------------------------------------------------------------------

EPISODES, SAVE_EVERY = 20, 3
TRAINER = """
import sys, torch
torch.set_num_threads(1)
from tests.agents.test_constrained_sac import train_to_the_end
train_to_the_end(sys.argv[1])
"""


def train_to_the_end(folder: str) -> None:
    """Train in a run from wherever it stands, telling of each episode."""
    with Run.open(folder) as run:
        model = make_allowance(7)
        saved = run.resume()
        if saved is not None:
            restore(model, saved.tensors, saved.state["learner"])
        for number in range(saved.step if saved else 0, EPISODES):
            steps = learn_episode(model, 1.0, seed=number, options={})
            run.log_metrics(number, {"reward": sum(reward for reward, _ in steps)})
            if (number + 1) % SAVE_EVERY == 0 or number + 1 == EPISODES:
                tensors, state = export(model)
                run.checkpoint(number + 1, tensors, {"learner": state})
            print(number, flush=True)


@pytest.fixture
def new_run(tmp_path: Path) -> Any:
    def make(name: str) -> str:
        with Run.create(tmp_path / name, TINY, stage="test", name="test", seed=7) as run:
            return str(run.folder)

    return make


def start(folder: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", TRAINER, folder], stdout=subprocess.PIPE, text=True)


@pytest.mark.long
def test_killed_at_any_moment_and_resumed_equals_the_uninterrupted_run(new_run: Any) -> None:
    whole = new_run("whole")
    train_to_the_end(whole)
    folder, chance = new_run("killed"), np.random.default_rng(0)
    moments = sorted(chance.uniform(SAVE_EVERY, EPISODES - 2, 1).tolist())
    for moment in moments:
        with start(folder) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= int(moment):
                    break
            time.sleep(0.01 * (moment % 1))  # somewhere within the next episode, or its checkpoint
            os.kill(process.pid, signal.SIGKILL)
    with start(folder) as process:
        assert process.wait(HANG_S) == 0
    ended = outcome(RunFolder(folder))
    assert ended["step"] == EPISODES
    assert ended == outcome(RunFolder(whole)), f"killed after episodes {moments}"
