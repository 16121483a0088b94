"""The compiled and the torch execution against the scalar judge, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from reelrl.errors import ConfigError
from reelrl.stream.data.traces import Trace, read_traces
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.torch_env import TorchAbr
from reelrl.stream.simulator.torch_rule import TOLERANCE_MS
from reelrl.stream.simulator.vector_env import AbrVectorEnv
from tests.stream.helpers import bumpy_ladder, data, links

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Ladder

pytestmark = pytest.mark.slow

PRESETS: list[dict[str, Any]] = [
    {"preset": "pensieve"},
    {"preset": "pensieve", "noise": False},
    {"preset": None, "noise": True, "random_start": True},
    {"preset": None, "qoe": "log", "queue_delay_ms": 30.0},
]


class SplitMix:
    """The generator of one vector player, in plain integers."""

    def __init__(self, state: int) -> None:
        self.state = state

    def uniform(self) -> float:
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53


class Judge:
    """A scalar environment that draws as one vector player does."""

    def __init__(self, traces: list[Trace], ladder: Ladder, state: int, arguments: dict[str, Any]) -> None:
        self.env = ABREnv(traces, ladder, **arguments)
        self.random = SplitMix(state)
        rule = self.env.net_env.rule
        if rule.noise_low != rule.noise_high:
            low, high = rule.noise_low, rule.noise_high
            self.env.net_env.draw_noise = lambda: low + (high - low) * self.random.uniform()  # type: ignore[method-assign]

    def reset(self) -> npt.NDArray[np.float32]:
        trace = int(self.random.uniform() * len(self.env.net_env.traces))
        slot = 0
        if self.env.net_env.random_start:
            slot = int(self.random.uniform() * len(self.env.net_env.traces[trace]))
        return self.env.reset(options={"trace": trace, "start_slot": slot})[0]


def compare(traces: list[Trace], ladder: Ladder, arguments: dict[str, Any], players: int, steps: int) -> int:
    vector = AbrVectorEnv(traces, ladder, players, **arguments)
    observations, _ = vector.reset(seed=5)
    states = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5))).integers(
        2**64, size=players, dtype=np.uint64
    )
    judges = [Judge(traces, ladder, int(state), arguments) for state in states]
    np.testing.assert_array_equal(observations, np.stack([judge.reset() for judge in judges]))
    choose = np.random.default_rng(0)
    episodes = 0
    for _ in range(steps):
        actions = choose.integers(0, vector.video.rungs, players)
        observations, rewards, ended, _, infos = vector.step(actions)
        for i, judge in enumerate(judges):
            observation, reward, done, _, info = judge.env.step(actions[i])
            assert rewards[i] == reward
            assert ended[i] == done
            assert all(infos[name][i] == value for name, value in info.items())
            if done:
                np.testing.assert_array_equal(infos["final_obs"][i], observation)
                observation = judge.reset()
                episodes += 1
            np.testing.assert_array_equal(observations[i], observation)
    return episodes


@pytest.mark.parametrize("arguments", PRESETS)
def test_vector_equals_scalar_to_the_last_bit(arguments: dict[str, Any]) -> None:
    assert compare(links(8), bumpy_ladder(), arguments, players=24, steps=120) == 24 * (120 // 11)


@pytest.mark.long
@pytest.mark.parametrize("arguments", PRESETS)
def test_vector_equals_scalar_over_thousands_of_episodes(arguments: dict[str, Any]) -> None:
    ladder = bumpy_ladder(chunks=48)
    assert compare(read_traces(data("traces/train/puffer_2021-10-17")), ladder, arguments, 100, 47 * 12) == 1200


@pytest.mark.parametrize("arguments", PRESETS)
def test_torch_equals_scalar_within_its_tolerance(arguments: dict[str, Any]) -> None:
    traces, ladder = links(10), bumpy_ladder()
    batch = TorchAbr(traces, ladder, len(traces), **{**arguments, "random_start": False})
    judges = [ABREnv(trace, ladder, **{**arguments, "random_start": False}) for trace in traces]
    rng = np.random.default_rng(3)
    rule = batch.rule
    for _ in range(20):
        noise = rng.uniform(rule.noise_low, rule.noise_high, (len(traces), 12))
        for i, judge in enumerate(judges):
            give_noise(judge, noise[i])
        observations = batch.reset(traces=torch.arange(len(traces)), noise=torch.from_numpy(noise[:, 0]))
        expected = np.stack([judge.reset()[0] for judge in judges])
        np.testing.assert_allclose(observations, expected, rtol=1e-6)
        for chunk in range(1, 12):
            actions = rng.integers(0, 6, len(traces))
            observations, rewards, ended, infos = batch.step(
                torch.from_numpy(actions), torch.from_numpy(noise[:, chunk])
            )
            if ended:
                observations = infos["final_obs"]
            for i, judge in enumerate(judges):
                observation, reward, done, _, info = judge.step(actions[i])
                assert done == ended
                assert float(rewards[i]) == pytest.approx(reward, abs=TOLERANCE_MS)
                for name, scale in (("delay_ms", 1.0), ("buffer_s", 1000.0), ("rebuffer_s", 1000.0)):
                    assert abs(float(infos[name][i]) - info[name]) * scale <= TOLERANCE_MS
                np.testing.assert_allclose(observations[i], observation, rtol=1e-6)


def give_noise(judge: ABREnv, factors: npt.NDArray[np.float64]) -> None:
    judge.net_env.draw_noise = lambda: float(factors[judge.net_env.chunk])  # type: ignore[method-assign]


def test_the_same_seed_gives_the_same_bytes() -> None:
    runs = []
    for _ in range(2):
        env = AbrVectorEnv(links(), bumpy_ladder(), 16, preset="pensieve")
        env.reset(seed=3)
        runs.append([env.step(np.full(16, k % 6))[0].tobytes() for k in range(40)])
    assert runs[0] == runs[1]


def test_a_saved_batch_continues_as_if_nothing_had_happened() -> None:
    env = AbrVectorEnv(links(), bumpy_ladder(), 16, preset="pensieve")
    observations, _ = env.reset(seed=3)
    for k in range(7):
        observations, *_ = env.step(np.full(16, k % 6))
    other = AbrVectorEnv(links(), bumpy_ladder(), 16, preset="pensieve")
    other.restore(env.export(), observations)
    for k in range(30):
        np.testing.assert_array_equal(env.step(np.full(16, k % 6))[0], other.step(np.full(16, k % 6))[0])


@pytest.mark.parametrize("actions", [np.zeros(3, dtype=np.int64), np.full(4, 6), np.full(4, -1)])
def test_wrong_actions_are_refused(actions: npt.NDArray[np.int64]) -> None:
    env = AbrVectorEnv(links(), bumpy_ladder(), 4)
    env.reset(seed=0)
    with pytest.raises(ConfigError):
        env.step(actions)
