"""The `pensieve` preset against a second, independent writing of Pensieve's rule: equal to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.traces import Trace, read_traces
from reelrl.stream.simulator import rule
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.environment import Environment
from tests.stream.helpers import data, links
from tests.stream.simulator.pensieve_twin import PensieveTwin

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def cooked_columns(folder: Path) -> tuple[list[list[float]], list[list[float]]]:
    times, mbps = [], []
    for file in sorted(folder.iterdir()):
        rows = [line.split() for line in file.read_text().splitlines() if line.strip()]
        times.append([float(row[0]) for row in rows])
        mbps.append([float(row[1]) for row in rows])
    return times, mbps


def write_cooked(folder: Path, traces: list[Trace]) -> Path:
    folder.mkdir()
    for number, trace in enumerate(traces):
        rates = [trace.kbps[0], *trace.kbps]
        lines = [f"{t:.9g}\t{k / 1000.0:.9g}" for t, k in zip(trace.edges_s.tolist(), rates, strict=True)]
        (folder / f"trace_{number:02d}").write_text("\n".join(lines))
    return folder


def compare(folder: Path, sizes: list[list[int]], ladder: object, rng_seed: int | None, videos: int, mix: str) -> int:
    times, mbps = cooked_columns(folder)
    quiet = rng_seed is None
    twin = PensieveTwin(times, mbps, sizes, None if rng_seed is None else np.random.RandomState(rng_seed))
    ours = Environment(
        read_traces(folder),
        ladder,
        rule=rule.named_rule("pensieve", noise=not quiet),
        random_start=not quiet,
        rng=None if rng_seed is None else np.random.RandomState(rng_seed),
    )
    choose = np.random.default_rng(7)
    steps = 0
    for video in range(videos):
        if quiet:
            ours.reset_episode(trace_index=video % len(times))
        for _ in range(48):
            quality = {"low": 0, "high": 5}.get(mix, int(choose.integers(6)))
            assert tuple(ours.get_video_chunk(quality)) == twin.get_video_chunk(quality)
            steps += 1
    return steps


@pytest.mark.parametrize("mix", ["low", "high", "mixed"])
@pytest.mark.parametrize("seed", [None, 42])
def test_equal_on_generated_traces(tmp_path: Path, mix: str, seed: int | None) -> None:
    folder = write_cooked(tmp_path / "traces", links(8))
    sizes = read_ladder("nominal").video().sizes_bytes.T.tolist()
    assert compare(folder, sizes, "nominal", seed, 12, mix) == 12 * 48


@pytest.mark.parametrize("mix", ["low", "high", "mixed"])
@pytest.mark.parametrize("part", ["traces/train/pensieve_fcc59", "traces/train/puffer_2021-10-17"])
@pytest.mark.parametrize("seed", [None, 42])
def test_equal_on_recorded_traces(mix: str, part: str, seed: int | None) -> None:
    video = data("videos/envivio")
    sizes = [[int(word) for word in (video / f"video_size_{q}").read_text().split()] for q in range(6)]
    compare(data(part), sizes, video, seed, 60, mix)


def test_the_environment_adds_state_and_reward_only(tmp_path: Path) -> None:
    """ABREnv's numbers are those of the simulator, and its state is Pensieve's, rolled junk included."""
    folder = write_cooked(tmp_path / "traces", links(3)[:1])
    times, mbps = cooked_columns(folder)
    sizes = read_ladder("nominal").video().sizes_bytes.T.tolist()
    twin = PensieveTwin(times, mbps, sizes, None)
    env = ABREnv(folder, "nominal", preset="pensieve", noise=False)
    kbps = [300, 750, 1200, 1850, 2850, 4300]
    state = np.zeros((6, 8))
    last = 1
    for step in range(48):
        quality = (step * 5) % 6 if step else 1
        delay, sleep, buffer, stall, size, following, end, remain = twin.get_video_chunk(quality)
        state = np.roll(state, -1, axis=1)
        state[:4, -1] = kbps[quality] / 4300, buffer / 10, size / delay / 1000, delay / 1000 / 10
        state[4, :6] = np.array(following) / 1000 / 1000
        state[5, -1] = remain / 48
        if step == 0:
            observation, _ = env.reset()
        else:
            reward = kbps[quality] / 1000 - 4.3 * stall - abs(kbps[quality] - kbps[last]) / 1000
            observation, ours, ended, truncated, info = env.step(quality)
            assert ours == pytest.approx(reward, abs=1e-12)
            assert (info["delay_ms"], info["sleep_ms"], ended, truncated) == (delay, sleep, end, False)
        np.testing.assert_array_equal(observation, state.astype(np.float32))
        last = quality
    assert observation[4, 7] != 0.0
