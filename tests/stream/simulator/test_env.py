"""ABREnv as its users meet it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import reelrl  # noqa: F401 - registers the ids
from reelrl.errors import ConfigError
from reelrl.stream import BUFFER_NORM_FACTOR, DEFAULT_QUALITY, S_INFO, S_LEN, ABREnv, AbrVectorEnv, Trace
from reelrl.stream.data.ladders import nominal_ladder
from tests.stream.helpers import bumpy_ladder, links
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("arguments", [{}, {"preset": "pensieve"}, {"noise": True, "random_start": True, "qoe": "log"}])
def test_gymnasium_finds_nothing_to_complain_about(arguments: dict[str, Any]) -> None:
    env = gymnasium.make("reelrl/Abr-v0", trace_json_path=links(), video_path=bumpy_ladder(), **arguments)
    check_env(env.unwrapped)


def test_gymnasium_accepts_the_wide_state_too() -> None:
    ladder = {"bitrates_kbps": list(range(300, 3300, 300)), "chunk_s": 4, "chunks": 5}
    env = gymnasium.make("reelrl/Abr-v0", trace_json_path=links(4)[0], video_path=ladder, state="wide")
    check_env(env.unwrapped)


def test_the_constants_users_import() -> None:
    assert (S_INFO, S_LEN, BUFFER_NORM_FACTOR, DEFAULT_QUALITY) == (6, 8, 10.0, 1)


def test_paths_and_parsed_objects_give_the_same_episode(tmp_path: Path) -> None:
    slots = [{"duration_ms": 1000, "bandwidth_kbps": 900 + 300 * (k % 5), "latency_ms": 20.0} for k in range(20)]
    ladder = {"bitrates_kbps": [300, 750, 1200]}
    (tmp_path / "trace.json").write_text(json.dumps(slots))
    (tmp_path / "ladder.json").write_text(json.dumps(ladder))
    envs = [ABREnv(slots, ladder), ABREnv(tmp_path / "trace.json", str(tmp_path / "ladder.json"))]
    runs = [[env.reset()[0], *(env.step(k % 3)[0] for k in range(19))] for env in envs]
    np.testing.assert_array_equal(runs[0], runs[1])


def test_the_first_observation_holds_one_measurement() -> None:
    trace = Trace.from_slots("flat", [1000.0] * 30, [3800.0] * 30, 40.0)
    env = ABREnv(trace, {"bitrates_kbps": [300, 750, 1200]}, queue_delay_ms=10.0)
    observation, info = env.reset()
    assert np.count_nonzero(observation[:, :-1]) == 3  # next sizes only
    assert info["delay_ms"] == pytest.approx(750 * 1000 / 8 / (3800 * 125 * 0.95) * 1000 + 50.0)
    assert observation[5, -1] == pytest.approx(29 / 30)
    assert observation[4, :3].tolist() == pytest.approx([0.0375, 0.09375, 0.15])
    assert (env.a_dim, env.last_bit_rate, env.video_size_by_bitrate.shape) == (3, 1, (3, 30))
    assert env.time_stamp == pytest.approx(info["delay_ms"])
    _, reward, _, _, info = env.step(2)
    assert env.time_stamp == pytest.approx(2 * 50 + info["chunk_size_bytes"] / 451.25 + 93750 / 451.25, rel=1e-6)
    assert reward == pytest.approx(1.2 - 4.3 * info["rebuffer_s"] - 0.45)
    assert env.buffer_size == info["buffer_s"]


def test_the_seed_decides_which_trace_is_drawn() -> None:
    def draws(env: ABREnv, seeds: list[int | None]) -> list[str]:
        names = []
        for seed in seeds:
            env.reset(seed=seed)
            names.append(env.net_env.trace.name + str(env.net_env.slot))
        return names

    traces = [Trace.from_slots(f"t{k}", [1000.0] * 9, [1000.0 + k] * 9) for k in range(50)]
    arguments: dict[str, Any] = {"random_seed": 7, "preset": "pensieve"}
    first = draws(ABREnv(traces, bumpy_ladder(), **arguments), [None, None, None])
    assert first == draws(ABREnv(traces, bumpy_ladder(), **arguments), [7, None, None])
    assert len(set(first)) > 1


def test_options_choose_instead_of_drawing() -> None:
    env = ABREnv(links(), bumpy_ladder())
    env.reset(options={"trace": 2, "start_slot": 5})
    assert env.net_env.trace is env.net_env.traces[2]
    for options in ({"trace": 99}, {"start_slot": -1}, {"speed": 1}):
        with pytest.raises(ConfigError):
            env.reset(options=options)


@pytest.mark.parametrize("action", [-1, 6, 1.5, "high", None, float("nan")])
def test_wrong_actions_are_refused(action: Any) -> None:
    env = ABREnv(links(), bumpy_ladder())
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="choose 0 to 5"):
        env.step(action)


def test_a_finished_video_wants_a_reset() -> None:
    env = ABREnv(links(), bumpy_ladder(chunks=2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    assert env.step(0)[2]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"default_quality": 6},
        {"rebuf_penalty": -1.0},
        {"smooth_penalty": float("nan")},
        {"queue_delay_ms": -5.0},
        {"preset": "pensive"},
        {"qoe": "loud"},
        {"state": "tall"},
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ABREnv(links(), bumpy_ladder(), **arguments)


def test_debug_logs_each_step(caplog: pytest.LogCaptureFixture) -> None:
    env = ABREnv(links(), bumpy_ladder(), debug=True)
    env.reset(seed=0)
    with caplog.at_level(logging.INFO):
        env.step(1)
    assert "reward" in caplog.text


@pytest.mark.long
def test_the_torch_twin_needs_neither_gymnasium_nor_numba() -> None:
    code = (
        "import sys, types; package = types.ModuleType('reelrl'); "
        f"package.__path__ = [{str(sys.modules['reelrl'].__path__[0])!r}]; sys.modules['reelrl'] = package; "
        "sys.modules.update(dict.fromkeys(('gymnasium', 'numba', 'matplotlib', 'yaml'))); "
        "from reelrl.stream import TorchAbr; from reelrl.stream.data.pools import training_pool; "
        "TorchAbr(training_pool(0, 3), num_envs=4).reset()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S)


@pytest.mark.parametrize("buffer_s", [1.5, 3.0, 8.0])
def test_a_live_player_is_never_further_ahead_than_its_buffer(buffer_s: float) -> None:
    ladder = nominal_ladder(chunk_s=1.0, chunks=40)
    env = ABREnv(links(4), ladder, buffer_s=buffer_s)
    many = AbrVectorEnv(links(4), ladder, 4, buffer_s=buffer_s)
    observations, _ = many.reset(options={"traces": [0, 1, 2, 3]})
    for number in range(4):
        observation, _ = env.reset(options={"trace": number})
        np.testing.assert_array_equal(observation, observations[number])
        ended = False
        while not ended:
            _, _, ended, _, info = env.step(1)
            assert info["buffer_s"] <= buffer_s
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=r"buffer_s = .*; it must be finite and above 0"):
            ABREnv(links(4), ladder, buffer_s=wrong)
