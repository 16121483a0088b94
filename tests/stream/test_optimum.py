"""The offline optimum: nobody is better, and where everything can be tried, nothing is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.errors import ConfigError
from reelrl.names import BITRATE_CONTROLLERS
from reelrl.stream.controllers.oracle import Oracle, best_rungs
from reelrl.stream.controllers.protocol import EpisodeInfo, Observation
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data.ladders import Ladder, nominal_ladder, read_ladder
from reelrl.stream.data.traces import Trace
from reelrl.stream.playback import load_bitrate_controller, play
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.qoe import Qoe
from reelrl.stream.simulator.rule import named_rule
from tests.stream.helpers import links

QOE = ("linear", "scaled", "log", "hd", "psnr")
UHD_KBPS = (500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0, 25_000.0, 40_000.0)


@st.composite
def ladders(draw: st.DrawFn, chunks: int, max_rungs: int) -> Ladder:
    """0.1 to 40 Mbit/s, segments that vary in size and score."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rungs = draw(st.integers(2, max_rungs))
    kbps = np.sort(np.exp(rng.uniform(np.log(100), np.log(40_000), rungs))) + np.arange(rungs, dtype=np.float64)
    chunk_s = draw(st.one_of(st.sampled_from([1.0, 2.0, 4.0, 10.0]), st.floats(1.0, 10.0)))
    vary = rng.uniform(0.6, 1.5, (chunks, 1)) if draw(st.booleans()) else 1.0
    sizes = np.round(kbps * chunk_s * 125.0 * vary * np.ones((chunks, 1)))
    scores = 30.0 + 5.0 * np.log(kbps / kbps[0] + 1.0) + rng.normal(0.0, 1.0, (chunks, rungs))
    return Ladder("drawn", kbps, chunk_s, sizes, {"psnr": scores})


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Slots of any length and rate, outages and round trips that change; or a generated link."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["slots", "still", "mobile", "outages"]))
    mean_kbps = float(np.exp(rng.uniform(np.log(200), np.log(60_000))))
    if kind in ("mobile", "outages"):
        trace = generate.mobile_trace(rng, mean_kbps=mean_kbps, duration_s=120)
        return trace if kind == "mobile" else generate.with_outages(trace, rng, count=2)
    slots = draw(st.integers(1, 30))
    kbps = mean_kbps * rng.uniform(0.0, 2.0, slots) * (rng.random(slots) > 0.2)
    kbps[0] += 100.0
    latency = rng.choice([0.0, 5.0, 80.0, 1500.0], slots) if kind == "slots" else 80.0
    return Trace.from_slots("drawn", np.round(rng.uniform(100, 9000, slots)), kbps, latency)


def session_of(trace: Trace, ladder: Ladder, qoe: str, preset: str | None) -> EpisodeInfo:
    return EpisodeInfo(ladder.video(), Qoe(variant=qoe), named_rule(preset, noise=False), trace=trace)


def best_by_trying_everything(trace: Trace, ladder: Ladder, qoe: str, preset: str | None) -> float:
    """The slow twin: every sequence of rungs, played in the readable environment."""
    env = ABREnv(trace, ladder, preset=preset, noise=False, qoe=qoe, state="wide")
    video = env.net_env.video

    def value(rungs: tuple[int, ...]) -> float:
        env.reset(seed=0)
        return sum(env.step(rung)[1] for rung in rungs)

    return max(value(rungs) for rungs in itertools.product(range(video.rungs), repeat=video.chunks - 1))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    trace=traces(),
    ladder=st.one_of(ladders(6, 3), ladders(5, 4), ladders(9, 2)),
    qoe=st.sampled_from(QOE),
    preset=st.sampled_from(["pensieve", None]),
)
def test_the_optimum_is_what_trying_everything_finds(
    trace: Trace, ladder: Ladder, qoe: str, preset: str | None
) -> None:
    plan = best_rungs(session_of(trace, ladder, qoe, preset))
    assert plan.exact
    assert plan.total == pytest.approx(best_by_trying_everything(trace, ladder, qoe, preset), rel=1e-6, abs=1e-6)


class Random:
    """Any rung, or the last one again."""

    privileged = False

    def reset(self, seed: int, episode: EpisodeInfo) -> None:
        self._rng, self._rungs, self._last = np.random.default_rng(seed), episode.video.rungs, 0

    def act(self, observation: Observation) -> int:
        if self._rng.random() < 0.3:
            self._last = int(self._rng.integers(self._rungs))
        return self._last


def nobody_beats_the_optimum(trace: Trace, ladder: Ladder, qoe: str, preset: str | None) -> None:
    plan = best_rungs(session_of(trace, ladder, qoe, preset), max_labels=200_000)
    video = ladder.video()
    ceiling = plan.total if plan.exact else plan.bound
    # Some choose among six rungs, and one has no weights of its own.
    left_out = {"pensieve-ppo", *(() if video.rungs == 6 else ("ppo", "comyco"))}
    names = [name for name in BITRATE_CONTROLLERS if name not in left_out]
    others: list[Any] = [load_bitrate_controller(name) for name in [*names, "lowest(-1)", "mpc(3)"]] + [
        Random(),
        Random(),
    ]
    for seed, other in enumerate(others):
        total = play(other, trace, ladder, preset=preset, qoe=qoe, seed=seed).qoe * (video.chunks - 1)
        assert total <= ceiling + 1e-6 * max(1.0, abs(ceiling)), type(other).__name__


CASES = given(
    trace=traces(),
    ladder=st.one_of(ladders(12, 12), ladders(30, 6)),
    qoe=st.sampled_from(QOE),
    preset=st.sampled_from(["pensieve", None]),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*was trained:UserWarning")  # learned ones say so on ladders that are new to them
@pytest.mark.parametrize("examples", [10, pytest.param(60, marks=pytest.mark.long)])
def test_nobody_beats_the_optimum(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(CASES(nobody_beats_the_optimum))()


@pytest.mark.parametrize("seed", range(5))
def test_on_a_4k_ladder_the_optimum_is_one(seed: int) -> None:
    ladder = nominal_ladder(UHD_KBPS, chunks=24)
    for trace in (links(6, seed)[seed].scaled(factor) for factor in (3.0, 8.0)):
        plan = best_rungs(session_of(trace, ladder, "linear", "pensieve"))
        assert plan.exact
        for name in ("mpc", "robustmpc"):
            assert play(load_bitrate_controller(name), trace, ladder).qoe * 23 <= plan.total + 1e-9


def test_the_plan_is_worth_what_it_says() -> None:
    for trace in links(6):
        oracle = Oracle()
        played = play(oracle, trace, nominal_ladder(chunks=16))
        assert played.qoe * 15 == pytest.approx(oracle.plan.total, abs=1e-9)
        assert oracle.plan.exact


@pytest.mark.long
@pytest.mark.slow
def test_a_search_that_gives_up_says_so() -> None:
    """With room for almost no labels the plan may fall behind, but its bound stays true."""
    rng = np.random.default_rng(3)
    kbps = np.geomspace(100.0, 20_000.0, 12)
    ladder = Ladder("fine", kbps, 4.0, np.round(kbps * 500.0 * rng.uniform(0.7, 1.3, (40, 12))))
    session = session_of(links(6)[0], ladder, "linear", "pensieve")
    best, hasty = best_rungs(session), best_rungs(session, max_labels=1)
    assert best.exact
    assert hasty.total <= best.total + 1e-9 <= hasty.bound + 1e-6
    assert not hasty.exact


def test_nobody_can_plan_for_noise() -> None:
    session = EpisodeInfo(nominal_ladder().video(), Qoe(), named_rule("pensieve"), trace=links(3)[0])
    assert not best_rungs(session).exact


def test_free_stalls_and_free_switches_are_no_special_case() -> None:
    trace, video = links(6)[1], nominal_ladder(chunks=12).video()
    rule = named_rule("pensieve", noise=False)
    free = best_rungs(EpisodeInfo(video, Qoe(rebuf_penalty=0.0, smooth_penalty=0.0), rule, trace=trace))
    assert free.rungs == [5] * 11
    assert free.exact
    assert best_rungs(EpisodeInfo(video, Qoe(rebuf_penalty=0.0), rule, trace=trace)).exact
    assert best_rungs(EpisodeInfo(video, Qoe(smooth_penalty=0.0), rule, trace=trace)).exact


def test_rungs_of_equal_worth_do_not_confuse_the_optimum() -> None:
    document = nominal_ladder(chunks=6).as_json() | {
        "sizes_bytes": nominal_ladder(chunks=6).video().sizes_bytes.tolist(),
        "psnr": [[30, 30, 30, 30, 40, 40]] * 6,
    }
    oracle = Oracle()
    assert np.isfinite(play(oracle, links(4)[0], read_ladder(document), qoe="psnr").qoe)
    assert oracle.plan.exact


def test_the_optimum_asks_for_the_trace() -> None:
    with pytest.raises(ConfigError, match="privileged"):
        best_rungs(EpisodeInfo(nominal_ladder().video()))
