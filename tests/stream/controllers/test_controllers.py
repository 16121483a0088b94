"""Controllers against cases worked out by hand or by trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reelrl.errors import ConfigError
from reelrl.stream.controllers.heuristics import Bba, Bola, Fixed, RateBased
from reelrl.stream.controllers.mpc import Mpc, RobustMpc, best_first_rung
from reelrl.stream.controllers.protocol import EpisodeInfo, harmonic_mean, view
from reelrl.stream.data.ladders import Ladder, nominal_ladder
from reelrl.stream.data.traces import Trace
from reelrl.stream.playback import load_bitrate_controller, play

VIDEO = nominal_ladder().video()


def state(buffer_s: float, mbps: list[float], rung: int = 1, remain: int = 40) -> np.ndarray:
    """An observation after downloads at these rates."""
    observation = np.zeros((6, 8), dtype=np.float32)
    for column, rate in enumerate(reversed(mbps)):
        observation[2, -1 - column] = rate / 8.0
        observation[3, -1 - column] = 0.1
    observation[0, -1] = VIDEO.bitrates_kbps[rung] / 4300.0
    observation[1, -1] = buffer_s / 10.0
    observation[5, -1] = remain / 48.0
    return observation


def test_the_view_reads_indices_back_exactly() -> None:
    for rung, remain in itertools.product(range(6), range(48)):
        seen = view(state(12.5, [1.0, 2.0], rung, remain), VIDEO)
        assert (seen.last_rung, seen.next_chunk, len(seen.throughputs)) == (rung, 48 - remain, 2)


def test_harmonic_mean_by_hand() -> None:
    assert harmonic_mean(np.array([9.0, 1.0, 2.0, 4.0, 4.0, 4.0])) == pytest.approx(5 / (1 + 0.5 + 0.75))


@pytest.mark.parametrize(("mbps", "rung"), [([0.1], 0), ([1.21], 2), ([9.0], 5), ([1.0, 4.0], 2)])
def test_rate_based_takes_the_highest_rung_below_the_mean(mbps: list[float], rung: int) -> None:
    controller = RateBased()
    controller.reset(0, EpisodeInfo(VIDEO))
    assert controller.act(state(10.0, mbps)) == rung


@pytest.mark.parametrize(("buffer_s", "rung"), [(0, 0), (4.9, 0), (7.1, 1), (10, 2), (14.9, 4), (15, 5), (60, 5)])
def test_bba_follows_its_line(buffer_s: float, rung: int) -> None:
    controller = Bba(5, 10)
    controller.reset(0, EpisodeInfo(VIDEO))
    assert controller.act(state(buffer_s, [1.0])) == rung


def test_bola_by_hand() -> None:
    """With two rungs of size 1 and e: u = (1, 2), gp = 1/(30/10 - 1) = 0.5, V = 20; they tie where
    30 - b = (50 - b)/e.
    """
    ladder = Ladder("two", np.array([1000.0, 1000.0 * np.e]), 4.0, chunks=48)
    controller = Bola(30.0)
    controller.reset(0, EpisodeInfo(ladder.video()))
    tie_s = (30 * np.e - 50) / (np.e - 1)
    observation = state(0.0, [1.0])
    chosen = []
    for buffer_s in (tie_s - 0.1, tie_s + 0.1):
        observation[1, -1] = buffer_s / 10.0
        chosen.append(controller.act(observation))
    assert chosen == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_mpc_finds_what_trying_everything_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(1, 5))
    sizes = np.sort(rng.uniform(1e5, 2e6, (depth, 4)), axis=1)
    utilities = np.sort(rng.uniform(0.1, 4.0, (depth, 4)), axis=1)
    buffer_s, last, rate = float(rng.uniform(0, 20)), float(rng.uniform(0, 4)), float(rng.uniform(5e4, 1e6))

    def value(rungs: tuple[int, ...]) -> float:
        buffer, previous, total = buffer_s, last, 0.0
        for chunk, rung in enumerate(rungs):
            took = sizes[chunk, rung] / rate
            total += utilities[chunk, rung] - 4.3 * max(took - buffer, 0.0) - abs(utilities[chunk, rung] - previous)
            buffer, previous = max(buffer - took, 0.0) + 4.0, utilities[chunk, rung]
        return total

    best = max(itertools.product(range(4), repeat=depth), key=value)
    assert best_first_rung(sizes, utilities, buffer_s, last, rate, 4.0, 4.3, 1.0) == best[0]


def test_robust_mpc_divides_by_its_worst_recent_error() -> None:
    controller = RobustMpc()
    controller.reset(0, EpisodeInfo(VIDEO))
    assert controller._predict(np.array([4.0])) == 4.0
    assert controller._predict(np.array([4.0, 2.0])) == pytest.approx((2 / (1 / 4 + 1 / 2)) / (1 + 1.0))
    plain = Mpc()
    plain.reset(0, EpisodeInfo(VIDEO))
    plain._predict(np.array([4.0]))
    assert plain._predict(np.array([4.0, 2.0])) == pytest.approx(2 / (1 / 4 + 1 / 2))


def test_controllers_are_loaded_by_name_with_arguments() -> None:
    assert load_bitrate_controller("bba(5,10)").reservoir_s == 5  # type: ignore[attr-defined]
    assert isinstance(load_bitrate_controller("tests.stream.controllers.test_controllers:Fixed"), Fixed)
    with pytest.raises(ConfigError, match="bola"):
        load_bitrate_controller("bolla")


def test_a_fixed_rung_must_be_on_the_ladder() -> None:
    with pytest.raises(ConfigError, match="rung = 6"):
        Fixed(6).reset(0, EpisodeInfo(VIDEO))


def test_constant_links_are_easy_for_everyone() -> None:
    """10 Mbit/s carries the highest rung: those who plan get there and stay."""
    trace = Trace.from_slots("fast", [1000.0] * 100, [10_000.0] * 100)
    for name in ("robustmpc", "mpc", "rate", "oracle"):
        played = play(load_bitrate_controller(name), trace, nominal_ladder(), timeline=True)
        assert played.rebuffer_s == 0.0
        assert played.timeline["bitrate_kbps"][-10:] == [4300.0] * 10


@pytest.mark.parametrize("name", ["rate(0)", "rate(-3)", "rate(5,0)", "bba(-1)", "bola(5)", "mpc(0)", "oracle(0)"])
def test_arguments_without_meaning_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        load_bitrate_controller(name)
