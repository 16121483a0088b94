"""The page of `reel play` in a real browser: it plays what the controller chose, and draws what happened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.stream.data.traces import Trace
from reelrl.stream.play import headless
from reelrl.stream.play.app import PAGE_FOLDER
from reelrl.stream.play.server import PlayServer
from reelrl.stream.play.service import Show
from reelrl.stream.playback import load_bitrate_controller
from tests.browser import PROGRAM, Chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not PROGRAM and not os.environ.get("CI"), reason="no Chromium here"),
    pytest.mark.skipif(
        not (PAGE_FOLDER / "vendor" / "dash.all.min.js").is_file(), reason="no dash.js here; run: python hatch_build.py"
    ),
]
DONE = "window.reel && (window.reel.done || window.reel.error)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds in four rungs, and an exported policy beside them."""
    place = tmp_path_factory.mktemp("site")
    clip, rates = "generated:street?size=192x112&frames=80&fps=10", ["--kbps", "110", "220", "400", "700"]
    assert main(["ladder", clip, "-o", str(place), "--segment", "1", "--preset", "12", *rates]) == 0
    assert main(["export", "abr", "scalefree", "-o", str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def show(site: Path) -> Show:
    """A link that is good, then too slow for the lowest rung, then good again."""
    trace = Trace.from_slots("dip", [1500, 6000, 60_000], [900, 20, 900], [20, 20, 20])
    named = {name: load_bitrate_controller(name) for name in ("bola", "robustmpc")}
    return Show(folder=site, controllers={**named, "dashjs": None}, traces=(trace,))


@pytest.fixture(scope="module")
def server(show: Show) -> Iterator[PlayServer]:
    with PlayServer(show, port=0) as running:
        yield running


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_viewing_is_played_and_drawn(server: PlayServer, width: int, dark: bool, tmp_path: Path) -> None:
    with Chromium(width, 1000, dark=dark, deadline_s=180) as browser:
        browser.open(server.url + "?controller=bola")
        browser.wait_for(DONE)
        assert browser.evaluate("window.reel.error") is None
        record = browser.evaluate("window.reel.record")
        assert browser.errors == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.querySelectorAll('#rates circle').length") == 8
        assert browser.evaluate("document.querySelectorAll('#buffers polyline').length") == 1
        assert browser.evaluate("document.querySelectorAll('#ladder li').length") == 4
        assert browser.evaluate("document.getElementById('reason').textContent").startswith("bola: ")
        browser.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 20_000
    asked = {decision["segment"]: decision["rung"] for decision in record["decisions"]}
    loaded = {download["segment"]: download["rung"] for download in record["downloads"]}
    assert sorted(loaded) == list(range(8))
    assert {segment: loaded[segment] for segment in asked} == asked
    # A second and a half of a good link and six seconds of almost none: the buffer ran out, and that was seen.
    assert record["stalls"]
    assert record["qoe"]["stalled_s"] > 0.5


def test_an_exported_policy_decides_without_the_service(server: PlayServer) -> None:
    with Chromium(deadline_s=180) as browser:
        browser.open(server.url + "?policy=/site/policy.js&qoe=scaled")
        browser.wait_for(DONE)
        record = browser.evaluate("window.reel.record")
        assert browser.errors == []
    assert record["controller"] == "page"
    asked = {decision["segment"]: decision["rung"] for decision in record["decisions"]}
    assert {download["segment"]: download["rung"] for download in record["downloads"]} == asked


def test_headless_viewings_stand_beside_what_the_simulator_says(server: PlayServer, show: Show) -> None:
    pairs = [(name, "dip") for name in ("robustmpc", "dashjs")]
    seen = headless.watch_all(show, server.url, pairs, qoe="scaled")
    viewings, pause_ms = headless.compared(show, seen, qoe="scaled")
    assert [each.controller for each in viewings] == ["robustmpc", "dashjs"]
    assert 0 <= pause_ms < 1000
    for each in viewings:
        assert each.stalled_s > 0
        assert each.predicted_stalled_s > 0
        assert 80 <= each.kbps <= 900


def test_a_viewing_that_does_not_end_is_told_and_left_out(show: Show) -> None:
    told: list[object] = []
    nowhere = "http://127.0.0.1:9/"
    assert headless.watch_all(show, nowhere, [("bola", "dip")], deadline_s=5, ended=told.append) == []
    assert "bola on dip has not ended after 5 s (no viewing began)" in str(told[0])
