"""Trace and ladder files: the formats agree, and a bad file is named with its entry, its value and the rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.errors import ConfigError, ContentError
from reelrl.stream import load_movie_json, load_trace
from reelrl.stream.data.ladders import nominal_ladder, read_ladder, write_ladder
from reelrl.stream.data.trace_stats import describe
from reelrl.stream.data.traces import Trace, read_trace, read_traces, write_trace
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.qoe import Qoe
from tests.stream.helpers import bumpy_ladder, data, links

if TYPE_CHECKING:
    from pathlib import Path

SLOT = {"duration_ms": 1000, "bandwidth_kbps": 4000, "latency_ms": 20.0}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_load_trace_returns_the_four_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [SLOT, {**SLOT, "bandwidth_kbps": 0}])
    times, rates, durations, latencies = load_trace(path)
    assert [each[0].tolist() for each in (times, rates, durations, latencies)] == [
        [0, 1],
        [4000, 0],
        [1000, 1000],
        [20, 20],
    ]
    assert load_movie_json is load_trace


def test_cooked_text_holds_rates_up_to_each_time(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "cooked", "0.0\t9.0\n2.0\t1.5\n5.0\t0.25\n"))
    assert trace.edges_s.tolist() == [0.0, 2.0, 5.0]
    assert trace.kbps.tolist() == [1500.0, 250.0]


def test_mahimahi_counts_packets_per_second(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "mahi", "\n".join(["10", "500", "1000", "1500", "2500"])))
    assert trace.durations_ms.tolist() == [1000.0, 1000.0, 500.0]
    assert trace.kbps.tolist() == [36.0, 12.0, 24.0]


@pytest.mark.parametrize("form", ["json", "cooked", "mahimahi"])
def test_what_is_written_is_read_again(tmp_path: Path, form: str) -> None:
    trace = links(4)[0]
    write_trace(trace, tmp_path / "again", form)
    again = read_trace(tmp_path / "again")
    tolerance = {"json": 1e-12, "cooked": 1e-8, "mahimahi": 0.02}[form]
    assert again.bytes_per_pass == pytest.approx(trace.bytes_per_pass, rel=tolerance)
    if form != "mahimahi":
        np.testing.assert_allclose(again.kbps, trace.kbps, rtol=1e-6)


def test_folders_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / f"{name}.json", [SLOT])
    assert [trace.name for trace in read_traces(tmp_path)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("[]", "0 slots"),
        ("{}", "a trace is a list"),
        ("[1]", "slot 0"),
        ('[{"duration_ms": 1000}]', "bandwidth_kbps is missing"),
        ([SLOT, {**SLOT, "bandwidth_kbps": -1}], "slot 1: bandwidth_kbps = -1"),
        ([SLOT, {**SLOT, "bandwidth_kbps": "fast"}], "slot 1: bandwidth_kbps = 'fast'"),
        ([{**SLOT, "bandwidth_kbps": float("nan")}], "bandwidth_kbps = nan"),
        ([{**SLOT, "duration_ms": 0}], "duration_ms = 0"),
        ([{**SLOT, "duration_ms": True}], "duration_ms = True"),
        ([{**SLOT, "latency_ms": float("inf")}], "latency_ms = inf"),
        ([{**SLOT, "bandwidth_kbps": 10**400}], "bandwidth_kbps"),
        ([{**SLOT, "bandwidth_kbps": 0}], "0 kbps"),
        ([{**SLOT, "bandwidth_kbps": 45_000_000}], "smaller units"),
        ([{**SLOT, "bandwidth_kbps": 4.5}], "larger units"),
        ("[" * 100_000, "not valid JSON"),
        ("0 1\n1 2\n1 3\n", "line 3: time_s = 1"),
        ("0 1\n1 -2\n", "line 2: rate"),
        ("0 1\n1 nan\n", "line 2"),
        ("0 1\n1 2 3\n", "line 2: 3 columns"),
        ("0 1 2\n", "3 columns"),
        ("0 1\n", "1 lines"),
        ("5\n3\n", "line 2: time_ms = 3"),
        ("hello\n", "line 1"),
    ],
)
def test_bad_traces_are_refused_by_name_and_entry(tmp_path: Path, content: Any, says: str) -> None:
    path = write(tmp_path / "bad", content)
    with pytest.raises(ContentError) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


def test_suspicious_units_can_be_allowed(tmp_path: Path) -> None:
    path = write(tmp_path / "fast.json", [{**SLOT, "bandwidth_kbps": 2_000_000}])
    assert read_trace(path, check_units=False).kbps[0] == 2_000_000


def test_what_fits_no_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(ContentError, match="4398046511104 bytes"):
        read_trace(path)


@pytest.mark.parametrize("what", ["missing", "folder", "device", "binary"])
def test_what_is_no_text_file_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80" * 10)
    path = "/dev/zero" if what == "device" else tmp_path / what
    with pytest.raises(ContentError, match=what.replace("missing", "no such file").replace("device", "plain file")):
        read_traces(path)


def test_a_link_that_would_take_for_ever_is_refused() -> None:
    slow = Trace.from_slots("slow", [1.0] * 1000, [1e-3] * 1000)
    with pytest.raises(ContentError, match="passes"):
        ABREnv(slow, "nominal")


def test_ladders_of_all_three_kinds(tmp_path: Path) -> None:
    ours = bumpy_ladder()
    write_ladder(ours, tmp_path / "ladder.json")
    np.testing.assert_array_equal(read_ladder(tmp_path).video().sizes_bytes, ours.sizes_bytes)
    movie = {
        "segment_duration_ms": 4000,
        "bitrates_kbps": [300, 750],
        "segment_sizes_bits": [[1.2e6, 3e6], [1.3e6, 3.1e6]],
    }
    sabre = read_ladder(write(tmp_path / "movie.json", movie)).video()
    assert (sabre.chunk_s, sabre.chunks, sabre.sizes_bytes[0, 1]) == (4.0, 2, 375_000.0)
    folder = tmp_path / "sizes"
    folder.mkdir()
    for rung, kbps in enumerate((300, 750, 1200, 1850, 2850, 4300)):
        write(folder / f"video_size_{rung}", "\n".join(str(kbps * 500 + i) for i in range(49)))
    pensieve = read_ladder(folder).video()
    assert (pensieve.chunks, pensieve.rungs, pensieve.chunk_s) == (48, 6, 4.0)


def test_what_a_ladder_leaves_open_comes_from_the_trace() -> None:
    trace = Trace.from_slots("t", [1000, 2000, 2000, 3000], [1000] * 4)
    video = read_ladder({"bitrates_kbps": [300, 600]}).video(trace)
    assert (video.chunk_s, video.chunks) == (2.0, 4)
    assert video.sizes_bytes[0].tolist() == [300 * 2000 / 8, 600 * 2000 / 8]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "bitrates_kbps is missing"),
        ({"bitrates_kbps": []}, "at least one"),
        ({"bitrates_kbps": [800]}, "the ladder has 1 rung, 800 kbit/s, so there is nothing to choose; give 2 to 64"),
        ({"bitrates_kbps": [300, 800], "chunks": 1e9}, "chunks = 1000000000.0; give a whole number, 1 to 100000"),
        ({"bitrates_kbps": [300, 800], "chunks": 10**9}, "chunks = 1000000000; a video has 1 to 100000"),
        ({"bitrates_kbps": [300, 200]}, "bitrates_kbps[1] = 200 after 300"),
        ({"bitrates_kbps": [300, float("nan")]}, "bitrates_kbps[1] = nan"),
        ({"bitrates_kbps": [-300, 200]}, "bitrates_kbps[0] = -300"),
        ({"bitrates_kbps": [300_000, 750_000]}, "divide by 1000"),
        ({"bitrates_kbps": [0.3, 4.3]}, "multiply by 1000"),
        ({"bitrates_kbps": [300, 750], "sizes_bytes": [[1, 2, 3]], "chunk_s": 4}, "3 entries for 2 bitrates"),
        ({"bitrates_kbps": [300, 750], "sizes_bytes": [[1, 2], [3]], "chunk_s": 4}, "equal rows"),
        ({"bitrates_kbps": [300, 750], "sizes_bytes": [[150_000, 0]], "chunk_s": 4}, "sizes_bytes[0][1] = 0"),
        ({"bitrates_kbps": [300, 750], "sizes_bytes": [[1_200_000, 3_000_000]], "chunk_s": 4}, "bits written as bytes"),
        ({"bitrates_kbps": [300, 750], "chunk_s": -4}, "chunk_s = -4"),
        ({"bitrates_kbps": [300, 750], "chunks": 2.5}, "chunks = 2.5"),
        (
            {"bitrates_kbps": [300, 750], "sizes_bytes": [[150_000, 375_000]], "vmaf": [[1]], "chunk_s": 4},
            "vmaf has shape",
        ),
        ({"bitrates_kbps": "fast"}, "table of numbers"),
    ],
)
def test_bad_ladders_are_refused_by_name_and_entry(tmp_path: Path, document: Any, says: str) -> None:
    path = write(tmp_path / "bad.json", document)
    with pytest.raises(ContentError) as caught:
        read_ladder(path).video(links(4)[0])
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_trace_of_one_slot_is_a_constant_link_but_makes_no_video(tmp_path: Path) -> None:
    path = write(tmp_path / "slot.json", [{"duration_ms": 1000, "bandwidth_kbps": 3000}])
    env = ABREnv(path, nominal_ladder(chunks=4))
    env.reset()
    assert env.step(3)[4]["delay_ms"] == pytest.approx(1850 * 4 / (0.95 * 3000) * 1000)
    with pytest.raises(ContentError, match="the video has 1 chunk, and the first is not a decision; give a ladder"):
        ABREnv(path, {"bitrates_kbps": [300, 750]})


def test_more_than_eight_rungs_need_the_wide_state() -> None:
    document = {"bitrates_kbps": list(range(300, 3300, 300)), "chunk_s": 4, "chunks": 5}
    with pytest.raises(ConfigError, match="state='wide'"):
        ABREnv(links(4)[0], document)
    observation, _ = ABREnv(links(4)[0], document, state="wide").reset(seed=0)
    assert observation.shape == (6, 10)


def test_qoe_variants_value_rungs_as_published() -> None:
    video = nominal_ladder().video()
    assert Qoe().utilities(video)[0].tolist() == [0.3, 0.75, 1.2, 1.85, 2.85, 4.3]
    assert Qoe(variant="hd").utilities(video)[0].tolist() == [1, 2, 3, 12, 15, 20]
    assert Qoe(variant="log").utilities(video)[0, -1] == pytest.approx(np.log(4300 / 300))
    assert [Qoe(variant=v).stall_penalty for v in ("linear", "scaled", "log", "hd")] == [4.3, 4.3, 2.66, 8.0]
    large = nominal_ladder(bitrates_kbps=[3000.0, 7500.0, 12_000.0, 18_500.0, 28_500.0, 43_000.0]).video()
    assert Qoe(variant="scaled").utilities(large)[0].tolist() == pytest.approx(Qoe().utilities(video)[0].tolist())
    with pytest.raises(ConfigError, match="reel ladder"):
        Qoe(variant="vmaf").utilities(video)


def test_perceptual_qoe_reads_each_segments_own_score() -> None:
    document = nominal_ladder(chunks=3).as_json() | {
        "sizes_bytes": nominal_ladder(chunks=3).video().sizes_bytes.tolist(),
        "vmaf": [[10, 20, 30, 40, 50, 60], [20, 30, 40, 50, 60, 86], [1, 2, 3, 4, 5, 6]],
    }
    env = ABREnv(links(4)[0], document, qoe="vmaf")
    env.reset(seed=0)
    _, _, _, _, info = env.step(5)
    assert info["reward_quality"] == pytest.approx(4.3)
    assert info["reward_smooth"] == pytest.approx(-(86 - 20) * 4.3 / 86)


def test_statistics_of_a_trace_with_an_outage() -> None:
    stats = describe(Trace.from_slots("t", [5000, 12_000, 5000], [2000, 50, 2000], 30))
    assert (stats.outages, stats.longest_outage_s, stats.slots, stats.latency_ms) == (1, 12.0, 3, 30.0)
    assert stats.mean_kbps == pytest.approx((2000 * 10 + 50 * 12) / 22)


@pytest.mark.slow
def test_the_recorded_sets_all_load() -> None:
    traces = read_traces(data("traces/train"))
    assert len(traces) == 589


@pytest.mark.parametrize("kbps", [1e299, 1e12, np.inf, np.nan])
def test_a_link_faster_than_any_is_refused_before_it_gives_endless_throughput(kbps: float) -> None:
    with pytest.raises(ContentError, match="slot 1: bandwidth_kbps"):
        Trace.from_slots("fast", [1000.0] * 3, [1000.0, kbps, 1000.0])
    with pytest.raises(ContentError, match="slot 0: bandwidth_kbps"):
        links(3)[0].scaled(kbps)


def test_the_fastest_link_gives_a_finite_observation() -> None:
    trace = Trace.from_slots("fast", [1000.0], [1e9])
    env = ABREnv(trace, {"bitrates_kbps": [10, 20], "chunk_s": 0.01, "chunks": 4})
    assert env.observation_space.contains(env.reset(seed=0)[0])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"chunk_s": 1e-300}, "a segment lasts 0.01 to 3600 s"),
        ({"bitrates_kbps": [1e-300, 300]}, "a segment of 5e-298 bytes; each has at least 1"),
        ({"sizes_bytes": [[1e-3, 3e5]] * 2, "bitrates_kbps": [1e-6, 600]}, "a segment of 0.001 bytes"),
    ],
)
def test_segments_that_could_not_be_measured_are_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(ContentError, match=message):
        read_ladder({"bitrates_kbps": [300, 600], "chunk_s": 4, "chunks": 5} | part).video()


@pytest.mark.parametrize("score", [0.0, -3.0])
def test_scores_that_cannot_be_scaled_are_refused(score: float) -> None:
    video = read_ladder(bumpy_ladder(4).as_json() | {"psnr": [[score] * 6] * 4}).video()
    with pytest.raises(ConfigError, match="best score is"):
        Qoe(variant="psnr").utilities(video)


def test_a_trace_that_lasts_for_ages_is_described_too() -> None:
    stats = describe(Trace.from_slots("t", [1000, 2000] + [1e12] * 1000, [2000, 50] + [3000] * 1000))
    assert stats.duration_s == pytest.approx(1e12)
