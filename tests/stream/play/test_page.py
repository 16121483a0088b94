"""The page of `reel play` in a real browser: it plays what the controller chose, and draws what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from reelrl.cli.main import main
from reelrl.stream.data.traces import Trace, write_trace
from reelrl.stream.play import headless
from reelrl.stream.play.app import PAGE_FOLDER
from reelrl.stream.play.server import PlayServer
from reelrl.stream.play.service import Show
from reelrl.stream.playback import load_bitrate_controller
from tests.browser import PROGRAM, Chromium
from tests.waiting import HANG_S, until

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
    trace = Trace.from_slots("dip", [700, 6000, 60_000], [900, 20, 900], [20, 20, 20])
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
    # Less than a second of a good link and six seconds of almost none: the buffer ran out, and that was seen.
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


def test_a_viewer_who_pauses_and_seeks_gets_what_is_chosen_afterwards(show: Show) -> None:
    """A good link, so that seeks alone move the buffer: inside it, back to what is gone or here, and to the end."""
    steady = Trace.from_slots("steady", [60_000], [2000], [20])
    calm = Show(
        folder=show.folder, controllers={"robustmpc": show.controllers["robustmpc"]}, traces=(steady,), buffer_cap_s=2
    )
    played = "window.reel.error || window.reel.viewing?.video.currentTime > "
    with PlayServer(calm, port=0) as server, Chromium(deadline_s=180) as browser:
        browser.open(server.url)
        browser.wait_for("window.reel && (" + played + "0.3)")
        browser.evaluate(
            "const { viewing } = window.reel, seeks = window.seeks = [];"
            "viewing.video.addEventListener('seeking', () => seeks.push([viewing.now_s, null]));"
            "viewing.video.addEventListener('seeked', () => { for (const seek of seeks) seek[1] ??= viewing.now_s })"
        )
        browser.evaluate("window.reel.viewing.video.pause()")
        browser.wait_for("window.reel.viewing.interrupted || window.reel.viewing.record.downloads.length > 2")
        browser.evaluate("window.reel.viewing.video.play(); 0")
        browser.evaluate("window.reel.viewing.video.currentTime = 4.5")  # two seconds beyond what can be there
        browser.wait_for(played + "4.7")
        browser.evaluate("window.reel.viewing.video.currentTime = 5.2")
        browser.wait_for(DONE)
        assert browser.evaluate("window.reel.error") is None
        record, seeks = browser.evaluate("window.reel.record"), browser.evaluate("window.seeks")
        assert browser.errors == []
    asked = [(each["segment"], each["rung"]) for each in record["decisions"]]
    loaded = [(each["segment"], each["rung"]) for each in record["downloads"] if not each["abandoned"]]
    assert {segment for segment, _ in loaded} >= {0, 4, 5, 6, 7}
    assert 2 not in {segment for segment, _ in loaded}  # jumped over
    # dash.js takes the segment that is jumped to at the rung it is at, and asks from the next one on.
    chosen = dict(asked)  # of what was asked for, a seek may drop some
    assert {segment: rung for segment, rung in loaded if segment not in (0, 4)}.items() <= chosen.items()
    assert chosen.keys() >= {5, 6, 7}
    assert len(seeks) >= 2
    for begin_s, end_s in seeks:  # waiting for a place that was jumped to is no stall
        assert all(stall["to_s"] <= begin_s or stall["from_s"] >= end_s for stall in record["stalls"])


def test_viewers_stand_side_by_side_over_one_network(server: PlayServer) -> None:
    with Chromium(1280, 1000, deadline_s=180) as browser:
        browser.open(server.url + "page/together.html")
        each = "[...document.querySelectorAll('iframe')].map(viewer => viewer.contentWindow.reel?.viewing)"
        browser.wait_for(f"{each}.length === 3 && {each}.every(viewing => viewing?.record.downloads.length > 1)")
        found = browser.evaluate(f"{each}.map(({{ record }}) => [record.controller, record.trace])")
        assert browser.errors == []
    assert found == [["bola", "dip"], ["robustmpc", "dip"], ["dashjs", "dip"]]


def test_headless_viewings_stand_beside_what_the_simulator_says(server: PlayServer, show: Show) -> None:
    pairs = [(name, "dip") for name in ("robustmpc", "dashjs")]
    seen = headless.watch_all(show, server.url, pairs, qoe="scaled")
    viewings, known = headless.compared(show, seen, qoe="scaled")
    assert [each.controller for each in viewings] == ["robustmpc", "dashjs"]
    assert 0 <= known.pause_ms < 1000
    assert 0 < known.full_s <= show.buffer_cap_s
    for each in viewings:
        assert each.stalled_s > 0
        assert each.predicted_stalled_s > 0
        assert 80 <= each.kbps <= 900


def test_a_viewing_that_does_not_end_is_told_and_left_out(show: Show) -> None:
    told: list[object] = []
    nowhere = "http://127.0.0.1:9/"
    assert headless.watch_all(show, nowhere, [("bola", "dip")], deadline_s=5, ended=told.append) == []
    assert "bola on dip has not ended after 5 s (no viewing began)" in str(told[0])


def test_ctrl_c_ends_viewings_at_once_and_leaves_no_browser(site: Path, tmp_path: Path) -> None:
    """Of eight viewings that take minutes each: the link carries next to nothing."""
    write_trace(Trace.from_slots("slow", [60_000], [10], [20]), tmp_path / "slow.json")
    names = ("bola", "rate", "bba", "mpc", "robustmpc", "hyb", "lowest", "dashjs")
    words = [
        "play",
        str(site),
        "--headless",
        "--port",
        "0",
        "--trace",
        str(tmp_path / "slow.json"),
        "--controller",
        *names,
    ]
    command = [sys.executable, "-m", "reelrl.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        tree = psutil.Process(child.pid)
        until(lambda: len(tree.children(recursive=True)) > 4)
        browsers = tree.children(recursive=True)
        child.send_signal(signal.SIGINT)
        assert child.wait(HANG_S) == 130
    assert psutil.wait_procs(browsers, timeout=HANG_S)[1] == []
