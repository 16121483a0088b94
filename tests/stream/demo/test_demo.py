"""The part of `reel demo` on streaming, on a video of a few seconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.cli.main import main
from reelrl.stream.data.generated_traces import markov_trace
from reelrl.stream.data.ladder_encoding import LadderSettings
from reelrl.stream.data.ladders import nominal_ladder, read_ladder
from reelrl.stream.demo import measure
from reelrl.stream.demo.film import seen_pictures
from reelrl.stream.playback import load_bitrate_controller
from tests.report.test_page import outside_sources

if TYPE_CHECKING:
    from pathlib import Path

FPS, SEGMENTS = 6, 4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["bola", "bba", "rate"]))
def test_stalls_on_the_clock_are_those_of_the_simulator(seed: int, name: str) -> None:
    ladder = nominal_ladder(chunks=20)
    trace = markov_trace(np.random.default_rng(seed), duration_s=60.0, states_kbps=(50.0, 400.0, 2000.0))
    watching = measure.watch(name, load_bitrate_controller(name), trace, ladder, others=0)
    stalled = [until - since for since, until in watching.stalls]
    told = [each for each in watching.playback.timeline["rebuffer_s"][1:] if each > 1e-6]
    assert stalled == pytest.approx(told)
    arrived_s, shown_s = measure.on_the_clock(watching.playback, watching.segment_s)
    assert shown_s == watching.shown_s
    assert all(here <= shown + 1e-9 for here, shown in zip(arrived_s, shown_s, strict=True))


@pytest.fixture(scope="module")
def small() -> pytest.MonkeyPatch:
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "CLIP", f"generated:street?size=192x128&frames={2 * FPS * SEGMENTS}&fps={FPS}")
    patch.setattr(measure, "SETTINGS", LadderSettings(qps=(50, 10), preset=13))
    patch.setattr(measure, "CONTROLLERS", ("robustmpc", "bola(18)"))
    return patch


@pytest.fixture(scope="module")
def made(small: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--only", "stream", "--out", str(folder), "--json"]) == 0
    yield folder
    small.undo()


@pytest.mark.slow
def test_the_film_shows_every_viewer_to_the_end(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--only", "stream", "--out", str(made), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["controller"] for each in printed["viewings"]] == ["robustmpc", "bola(18)"]
    ladder = read_ladder(made / "stream")
    ended = [
        measure.watch(name, load_bitrate_controller(name), measure.bad_link(ladder), ladder, others=0).ended_s
        for name in ("robustmpc", "bola(18)")
    ]
    with av.open(str(made / "three-viewers.mp4")) as film:
        pictures = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(pictures) == np.ceil(max(ended) * FPS)
    assert pictures[0].shape[1] == 2 * 192 + 6
    markup = (made / "index.html").read_text(encoding="utf-8")
    assert outside_sources(markup) == []
    assert "reel play" in markup


@pytest.mark.slow
def test_a_site_that_is_there_is_not_encoded_again(made: Path) -> None:
    before = (made / "stream" / "ladder.json").stat().st_mtime_ns
    counted: list[int] = []
    measure.make_site(made / "stream", measure.CLIP, measure.SETTINGS, lambda: counted.append(1))
    assert (made / "stream" / "ladder.json").stat().st_mtime_ns == before
    assert counted == []
    measure.make_site(made / "stream", measure.CLIP, LadderSettings(qps=(55, 50), preset=13), lambda: counted.append(1))
    assert len(counted) == 2 * SEGMENTS


@pytest.mark.slow
def test_pictures_are_those_of_the_chosen_rungs(tmp_path: Path) -> None:
    """A switch in the middle decodes to what the rungs decode to by themselves."""
    clip = f"generated:street?size=192x128&frames={2 * FPS * SEGMENTS}&fps={FPS}"
    measure.make_site(tmp_path, clip, LadderSettings(qps=(50, 10), preset=13))
    low, high = (seen_pictures(tmp_path, [rung] * SEGMENTS) for rung in (0, 1))
    mixed = seen_pictures(tmp_path, [0, 1, 1, 0])
    per_segment = 2 * FPS
    for k, rung in enumerate([0, 1, 1, 0]):
        part = slice(k * per_segment, (k + 1) * per_segment)
        assert np.array_equal(mixed[part], (low, high)[rung][part])
    assert not np.array_equal(low, high)
