"""The live viewer: what a browser shows, and that nobody who looks, or fails to, slows the learner down."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from reelrl.content.feeds.kinds import open_feed
from reelrl.errors import ConfigError
from reelrl.runs.live_server import MOST_CLIENTS, LiveServer
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.monitor.panels import FeatureVisualizer, pictures_of
from reelrl.see.monitor.snapshots import Snapshot
from reelrl.see.monitor.viewer import CHARTED, POINTS, Viewer
from reelrl.see.settings import AutoEncoderSettings
from tests.browser import PROGRAM, Chromium
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reelrl.see.result import LearnResult

FIGURES = {name: 20.0 + index for index, name in enumerate(CHARTED)} | {"mse": 0.00123, "changed_share": 0.25}


@pytest.fixture(scope="module")
def result() -> LearnResult:
    """Two frames into a game."""
    torch.set_num_threads(1)
    model = StreamingAutoEncoder(AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2))))
    shots = open_feed("ale:Breakout").shots()
    for _ in range(2):
        found = model.learn(torch.from_numpy(next(shots).picture).permute(2, 0, 1))
    return found


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    with Viewer("ale:Breakout", 1000, port=0) as viewer:
        yield viewer


class Client:
    """Listens to the events of a server, when it is asked to."""

    def __init__(self, url: str, buffer: int | None = None) -> None:
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(HANG_S)
        self.socket.connect((host, int(port)))
        self.socket.sendall(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        self._file = self.socket.makefile("rb")

    def listen(self) -> dict[str, Any]:
        for line in self._file:
            if line.startswith(b"data: "):
                news: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return news
        raise EOFError("the server has ended")

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def test_nothing_is_drawn_while_nobody_looks(viewer: Viewer, result: LearnResult) -> None:
    for step in range(20):
        viewer.offer(step, result, FIGURES)
    client = Client(viewer.url)
    until(lambda: viewer._server.watched)
    viewer.offer(20, result, FIGURES)
    assert client.listen()["frame"] == 20
    assert viewer.shown == 1
    client.close()


def test_every_client_sees_the_newest_frame(viewer: Viewer, result: LearnResult) -> None:
    clients = [Client(viewer.url) for _ in range(3)]
    until(lambda: viewer._server._clients == 3)
    for step in (1, 2):
        until(lambda: viewer._offered is None and time.monotonic() > viewer._next_s)
        viewer.offer(step, result, FIGURES)
        news = [client.listen() for client in clients]
        assert [one["frame"] for one in news] == [step] * 3
    assert news[0]["figures"] == FIGURES
    png = base64.b64decode(news[0]["pictures"]["input"].partition(",")[2])
    assert png.startswith(b"\x89PNG")
    for client in clients:
        client.close()


@pytest.mark.long
@pytest.mark.slow
def test_a_client_that_does_not_read_costs_the_learner_nothing(viewer: Viewer, result: LearnResult) -> None:
    stuck = Client(viewer.url, buffer=4096)
    reader = Client(viewer.url)
    until(lambda: viewer._server._clients == 2)
    spent_s, step, shown = 0.0, 0, 0
    while shown < 8:  # far more bytes than the sockets of the one that is stuck can hold
        step += 1
        start_s = time.thread_time()
        viewer.offer(step, result, FIGURES)
        spent_s += time.thread_time() - start_s
        if viewer.shown > shown:
            shown = viewer.shown
            reader.listen()
    assert step > 8  # frames were dropped
    assert spent_s / step < 0.002
    viewer.close()  # and it does not hold up the end
    stuck.close()
    reader.close()


@pytest.mark.slow
def test_a_client_that_takes_no_message_is_let_go() -> None:
    with LiveServer("page", 0) as server:
        stuck = Client(server.url, buffer=4096)
        until(lambda: server.watched)
        message = {"x": "x" * (1 << 20)}
        start_s = time.thread_time()
        for _ in range(20):
            server.publish(message)
        assert time.thread_time() - start_s < 1.0
        until(lambda: not server.watched)
        stuck.close()


def test_the_chart_spans_the_run_in_few_points(viewer: Viewer, result: LearnResult) -> None:
    for step in range(1000):
        viewer.offer(step, result, dict(FIGURES))
    assert POINTS / 2 <= len(viewer._history) <= POINTS
    assert viewer._history[0][0] == 0
    assert viewer._history[-1][0] == 999


def test_panels_show_what_they_say(result: LearnResult) -> None:
    arrays = Snapshot(pictures_of(result)).arrays()
    panels = FeatureVisualizer().panels(arrays)
    assert panels["input"].shape == (224, 224, 3)
    assert [panels[name].shape[:2] for name in ("texture", "balance", "structure")] == [(27, 83), (25, 51), (23, 47)]
    assert np.abs(panels["input"] / 255 - arrays["input"][0].transpose(1, 2, 0)).max() < 0.003
    perfect = FeatureVisualizer().panels({**arrays, "reconstruction": arrays["input"]})
    assert (perfect["error"] == perfect["error"][0, 0]).all()
    assert FeatureVisualizer().sheet(arrays).dtype == np.uint8


def test_a_snapshot_stays_when_its_tensor_moves_on() -> None:
    tensor = torch.zeros(3)
    snapshot = Snapshot({"x": tensor})
    tensor += 1
    assert snapshot.arrays()["x"].tolist() == [0, 0, 0]


def test_a_taken_port_is_told_and_the_usual_one_gives_way() -> None:
    with LiveServer("", 0) as first:
        port = int(first.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"port {port} is taken by another program; choose another, or 0"):
            LiveServer("", port)
    with pytest.raises(ConfigError, match="port is 70000"):
        LiveServer("", 70000)
    with LiveServer("one") as usual, LiveServer("two") as other:
        assert usual.url != other.url
        assert urllib.request.urlopen(other.url, timeout=HANG_S).read() == b"two"


def test_only_this_machine_is_served_and_only_the_page() -> None:
    with LiveServer("page", 0) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "etc/passwd", timeout=HANG_S)


def test_too_many_clients_are_turned_away() -> None:
    with LiveServer("page", 0) as server:
        clients = [Client(server.url) for _ in range(MOST_CLIENTS)]
        until(lambda: server._clients == MOST_CLIENTS)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(server.url + "events", timeout=HANG_S)
        for client in clients:
            client.close()


def test_those_who_look_are_told_of_the_end(viewer: Viewer) -> None:
    client = Client(viewer.url)
    until(lambda: viewer._server.watched)
    viewer.close("done")
    assert client.listen() == {"ended": "done"}
    client.close()


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM and not os.environ.get("CI"), reason="no Chromium here")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_pictures_figures_and_charts(
    viewer: Viewer, result: LearnResult, dark: bool, tmp_path: Path
) -> None:
    with Chromium(1280, 1000, dark=dark) as browser:
        browser.open(viewer.url)
        until(lambda: viewer._server.watched)
        for step in range(1, 400, 40):
            viewer.offer(step, result, {**FIGURES, "psnr": 20 + step / 100})
        until(lambda: viewer._offered is None and time.monotonic() > viewer._next_s)
        viewer.offer(400, result, FIGURES)
        browser.wait_for("document.getElementById('frame').textContent === '400'")
        browser.wait_for("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        assert browser.evaluate("document.images.length") == 7
        assert browser.evaluate("document.getElementById('source').textContent") == "ale:Breakout"
        assert browser.evaluate("document.getElementById('mse').textContent") == "0.00123"
        assert browser.evaluate("document.querySelectorAll('#all polyline').length") == 3
        assert browser.evaluate("document.documentElement.scrollWidth") == 1280
        ground = "rgb(18, 20, 24)" if dark else "rgb(251, 250, 248)"
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        viewer.close("done")
        browser.wait_for("document.getElementById('state').textContent === 'done'")
        assert browser.errors == []
