"""The exported module decides as the Python controller does, on the states of simulated sessions."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.errors import ConfigError
from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.data.ladders import Ladder, nominal_ladder
from reelrl.stream.export.module import es_module, exportable
from reelrl.stream.scalefree.controller import ScaleFree
from reelrl.stream.simulator.env import ABREnv
from tests.stream.export.javascript import run_module

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TOLERANCE = 2e-4  # of scores: Python adds in float32, JavaScript in float64
REPLAY = """
    return given.map(({ladder, wishes, states}) => {
        const session = new policy.Session(ladder, wishes);
        return states.map(state => { const {scores, rung} = session.act(state); return {scores, rung}; });
    });
"""


def varied(rates: list[float], chunk_s: float, chunks: int, seed: int) -> Ladder:
    """A ladder whose segments differ in size, with scores for each."""
    rng = np.random.default_rng(seed)
    sizes = np.outer(rng.uniform(0.5, 1.7, chunks), np.array(rates) * chunk_s * 125.0)
    psnr = 30.0 + 10.0 * np.log10(sizes / sizes.min())
    return Ladder("varied", np.array(rates), chunk_s, sizes, {"psnr": psnr})


def recorded(
    name: str, ladder: Ladder, traces: int, qoe: str = "linear", buffer_s: float = 60.0
) -> list[dict[str, Any]]:
    """Sessions of a controller: the ladder, every state it saw, and how it scored the rungs there."""
    controller = exportable(name)
    net: Any = controller.policy
    found: list[dict[str, Any]] = []
    if not isinstance(controller, ScaleFree):
        compute = net.logits

        def spy(*arguments: Any) -> Any:
            scores = compute(*arguments)
            found[-1]["scores"].append(scores[0].tolist())
            return scores

        net.logits = spy
    for seed in range(traces):
        env = ABREnv(
            mobile_trace(np.random.default_rng(seed), mean_kbps=2000.0, duration_s=300),
            ladder,
            qoe=qoe,
            state="wide",
            buffer_s=buffer_s,
        )
        state, _ = env.reset(seed=seed)
        video = env.net_env.video
        controller.reset(seed, EpisodeInfo(video, env.qoe, env.net_env.rule, env.default_quality))
        found.append(
            {
                "ladder": ladder.as_json() | {"chunks": video.chunks},
                "wishes": {"qoe": qoe, "buffer_s": buffer_s},
                "states": [],
                "scores": [],
                "rungs": [],
            }
        )
        ended = False
        while not ended:
            rung = controller.act(state)
            if isinstance(controller, ScaleFree):
                found[-1]["scores"].append(controller.scores.tolist())
            found[-1]["states"].append(state.tolist())
            found[-1]["rungs"].append(rung)
            state, _, ended, _, _ = env.step(rung)
    return found


def replayed(name: str, sessions: list[dict[str, Any]], folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Scores and rungs of the module on the states of each session."""
    given = [{key: session[key] for key in ("ladder", "wishes", "states")} for session in sessions]
    answers = run_module(es_module(exportable(name), name), REPLAY, given, folder)
    scores = [np.array([answer["scores"] for answer in session]) for session in answers]
    return scores, [np.array([answer["rung"] for answer in session]) for session in answers]


def assert_same_decisions(name: str, sessions: list[dict[str, Any]], folder: Path) -> int:
    """Scores within TOLERANCE; the same rung wherever Python's lead is larger than that. Returns how many states."""
    decided = total = 0
    for session, scores, rungs in zip(sessions, *replayed(name, sessions, folder), strict=True):
        python = np.array(session["scores"])
        off = np.abs(scores - python) / np.maximum(1.0, np.abs(python))
        assert off.max() < TOLERANCE
        first, second = -np.sort(-python, axis=1)[:, :2].T
        clear = first - second > 2.0 * TOLERANCE * np.maximum(1.0, np.abs(first))
        decided, total = decided + int(clear.sum()), total + len(clear)
        np.testing.assert_array_equal(rungs[clear], np.array(session["rungs"])[clear])
    assert decided > 0.98 * total
    return total


def test_the_policy_for_six_rungs_decides_as_in_python(tmp_path: Path) -> None:
    sessions = recorded("ppo", nominal_ladder(), traces=20)
    assert assert_same_decisions("ppo", sessions, tmp_path) > 900


def test_the_policy_for_any_ladder_decides_as_in_python(tmp_path: Path) -> None:
    sessions = [
        *recorded("scalefree", nominal_ladder(), traces=8),
        *recorded("scalefree", varied([400.0, 1600.0], 1.0, 60, seed=1), traces=4),
        *recorded("scalefree", varied([200.0, 500.0, 1100.0, 2400.0], 2.0, 40, seed=2), traces=6, qoe="log"),
        *recorded("scalefree", varied([200.0 * 1.5**n for n in range(9)], 6.0, 30, seed=3), traces=6, qoe="psnr"),
        *recorded("scalefree", varied([150.0 * 1.4**n for n in range(12)], 4.0, 40, seed=4), traces=6, buffer_s=20.0),
        *recorded("scalefree", nominal_ladder(), traces=4, qoe="hd"),
        *recorded("scalefree", nominal_ladder(), traces=4, qoe="scaled"),
    ]
    assert assert_same_decisions("scalefree", sessions, tmp_path) > 1500


def test_thrift_and_caution_are_those_of_the_controller_that_was_exported(tmp_path: Path) -> None:
    for name in ("scalefree-safe", "scalefree(1,2)"):  # to the end; easing off before it
        sessions = recorded(name, nominal_ladder(), traces=4)
        assert assert_same_decisions(name, sessions, tmp_path) > 150


def test_measurements_become_the_environments_states(tmp_path: Path) -> None:
    ladder = varied([200.0 * 1.5**n for n in range(9)], 4.0, 40, seed=5)
    env = ABREnv(mobile_trace(np.random.default_rng(1), mean_kbps=2000.0, duration_s=300), ladder, state="wide")
    state, info = env.reset(seed=1)
    rng, rung, steps, ended = np.random.default_rng(1), env.default_quality, [], False
    while not ended:
        steps.append(
            {
                "download": {
                    "rung": rung,
                    "size_bytes": info["chunk_size_bytes"],
                    "download_ms": info["delay_ms"],
                },
                "buffer_s": info["buffer_s"],
                "chunk": 40 - info["chunks_remain"],
                "state": state.tolist(),
            }
        )
        rung = int(rng.integers(9))
        state, _, ended, _, info = env.step(rung)
    code = """
        const session = new policy.Session(given.ladder);
        return given.steps.map(({download, buffer_s, chunk}) => {
            session.downloaded(download);
            session.choose(0.1, chunk);         // asked early, and again: only the last buffer counts
            session.choose(buffer_s, chunk);
            return session.state.map(row => [...row]);
        });
    """
    module = es_module(exportable("scalefree"), "scalefree")
    states = run_module(module, code, {"ladder": ladder.as_json(), "steps": steps}, tmp_path)
    np.testing.assert_array_equal(np.array(states, np.float32), np.array([step["state"] for step in steps], np.float32))


def test_a_ladder_that_a_policy_cannot_play_is_refused_with_a_reason(tmp_path: Path) -> None:
    code = """
        const reason = ladder => {
            try { new policy.Session({chunks: 9, ...ladder}); } catch (error) { return error.message; }
        };
        return [reason({bitrates_kbps: [100, 200], chunk_s: 2}), reason({bitrates_kbps: [200, 100], chunk_s: 2}),
                reason({bitrates_kbps: [100, 200], chunk_s: 0})];
    """
    reasons = run_module(es_module(exportable("ppo"), "ppo"), code, None, tmp_path)
    assert "2 rungs and this policy chooses among 6" in reasons[0]
    assert "[200,100]" in reasons[1]
    assert "chunk_s = 0" in reasons[2]


def test_what_did_not_arrive_is_not_counted(tmp_path: Path) -> None:
    code = """
        const session = new policy.Session({bitrates_kbps: [100, 200, 400], chunk_s: 2, chunks: 9});
        const first = session.choose(0, 0).rung;
        for (const size_bytes of [0, NaN]) session.downloaded({rung: 1, size_bytes, download_ms: 900});
        session.downloaded({rung: 7, size_bytes: 9, download_ms: 900});
        session.downloaded({rung: 1, size_bytes: 9, download_ms: Infinity});
        return [first, session.measurements];
    """
    assert run_module(es_module(exportable("scalefree"), "scalefree"), code, None, tmp_path) == [1, 0]


def test_only_what_was_trained_is_exported() -> None:
    with pytest.raises(ConfigError, match="bola is no policy of `reel train abr`"):
        exportable("bola")


def test_the_command_says_how_the_files_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "abr", "ppo", "-o", str(tmp_path / "policy")]) == 0
    found = {path.name for path in (tmp_path / "policy").iterdir()}
    assert found == {"policy.js"} | ({"policy.onnx"} if find_spec("onnx") else set())
    assert "forDash(player, dashjs)" in capsys.readouterr().out


def test_without_onnx_players_get_their_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "abr", "ppo", "-o", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["policy.js"]
    assert "pip install 'reelrl[onnx]'" in capsys.readouterr().err
