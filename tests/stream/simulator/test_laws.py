"""What holds for every link, ladder and choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.stream.data.traces import Trace
from reelrl.stream.simulator import rule
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.environment import Environment

slots = st.tuples(st.floats(100.0, 8000.0), st.one_of(st.just(0.0), st.floats(100.0, 20_000.0)), st.floats(0.0, 300.0))
traces = (
    st.lists(slots, min_size=1, max_size=12)
    .filter(lambda rows: any(row[1] > 0 for row in rows))
    .map(lambda rows: Trace.from_slots("drawn", *zip(*rows, strict=True)))
)
choices = st.lists(st.integers(0, 5), min_size=15, max_size=15)
CHUNKS = {"bitrates_kbps": [300, 750, 1200, 1850, 2850, 4300], "chunk_s": 4.0, "chunks": 16}


@settings(max_examples=80, deadline=None)
@given(trace=traces, actions=choices, noise=st.floats(0.9, 1.1))
def test_time_is_conserved(trace: Trace, actions: list[int], noise: float) -> None:
    """The link's clock and the viewer's agree: passes of the trace, plus the clock, is all the delay and sleep."""
    place = (0, 0.0, 0.0)
    spent_ms = played_ms = stalled_ms = 0.0
    for size in [300.0 * 500 * (1 + a) for a in actions]:
        got = rule.download(
            trace.edges_s, trace.bytes_per_s, trace.latency_ms, 0, len(trace), *place, size, 4000.0, noise, rule.DEFAULT
        )
        spent_ms += got.delay_ms + got.sleep_ms
        stalled_ms += got.stall_ms
        played_ms += 4000.0
        place = (got.slot, got.clock_s, got.buffer_ms)
        # Everything downloaded was either played or is in the buffer.
        assert played_ms - got.buffer_ms == pytest.approx(spent_ms - stalled_ms, abs=1e-4)
    passes = (spent_ms / 1000.0 - place[1]) / trace.duration_s
    assert passes == pytest.approx(round(passes), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(trace=traces, actions=choices, preset=st.sampled_from(["pensieve", None]), seed=st.integers(0, 99))
def test_the_buffer_stays_within_its_cap_and_rewards_add_up(
    trace: Trace, actions: list[int], preset: str | None, seed: int
) -> None:
    env = ABREnv(trace, CHUNKS, preset=preset, noise=True)
    observation, info = env.reset(seed=seed)
    for step, action in enumerate(actions):
        assert env.observation_space.contains(observation)
        observation, reward, ended, _, info = env.step(action)
        assert 0.0 <= info["buffer_s"] <= 60.0
        assert info["rebuffer_s"] >= 0.0
        terms = info["reward_quality"] + info["reward_rebuffer"] + info["reward_smooth"]
        assert reward == pytest.approx(terms, abs=1e-9)
        assert ended == (step == len(actions) - 1)
        assert info["chunks_remain"] == len(actions) - 1 - step


@settings(max_examples=60, deadline=None)
@given(trace=traces, action=st.integers(0, 5), gap_ms=st.floats(100.0, 20_000.0), where=st.integers(0, 11))
def test_a_slot_without_bandwidth_only_adds_time(trace: Trace, action: int, gap_ms: float, where: int) -> None:
    where = min(where, len(trace))
    flat = np.zeros(len(trace))
    gapped = Trace.from_slots(
        "gapped", np.insert(trace.durations_ms, where, gap_ms), np.insert(trace.kbps, where, 0.0), 0.0
    )
    plain = Trace.from_slots("plain", trace.durations_ms, trace.kbps, flat)
    before = Environment(plain, CHUNKS).get_video_chunk(action)
    after = Environment(gapped, CHUNKS).get_video_chunk(action)
    extra = after.delay_ms - before.delay_ms
    assert after.size_bytes == before.size_bytes
    assert extra >= -1e-6
    assert extra / gap_ms == pytest.approx(round(extra / gap_ms), rel=1e-9, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(trace=traces, start_ms=st.floats(0.0, 30_000.0), later_ms=st.floats(0.0, 30_000.0), size=st.floats(1e3, 5e6))
def test_who_asks_earlier_is_served_no_later(trace: Trace, start_ms: float, later_ms: float, size: float) -> None:
    def done_at(wait_ms: float) -> float:
        slot, clock, _ = rule.wait(trace.edges_s, 0, len(trace), 0, 0.0, wait_ms, 0.0)
        return (
            wait_ms
            + 1000.0 * rule.fetch(trace.edges_s, trace.bytes_per_s, 0, len(trace), slot, clock, size, 0.95, 0.0)[2]
        )

    assert done_at(start_ms) <= done_at(start_ms + later_ms) + 1e-4


def test_default_and_preset_differ_only_where_they_say() -> None:
    """A constant link: the same download, but only the default's clock moves during the round trip."""
    trace = Trace.from_slots("flat", [1000.0] * 50, [8000.0] * 50, 80.0)
    ours, theirs = (
        Environment(trace, CHUNKS, rule=r) for r in (rule.DEFAULT, rule.named_rule("pensieve", noise=False))
    )
    a, b = ours.get_video_chunk(2), theirs.get_video_chunk(2)
    assert a.delay_ms == pytest.approx(1200.0 * 4000 / (8000 * 0.95) + 80.0)
    assert a.delay_ms == pytest.approx(b.delay_ms)
    assert ours.clock_s - theirs.clock_s == pytest.approx(0.080)
