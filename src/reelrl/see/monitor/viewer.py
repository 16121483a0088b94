"""The live viewer of a learner: what it sees, what it makes of it, and how well, in a browser on this machine.

It looks only while somebody does, takes a frame now and then and drops all others, and spends at most a tenth of one
core on drawing.
"""

from __future__ import annotations

import base64
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from reelrl.content.pictures import png_bytes
from reelrl.runs.live_server import LiveServer
from reelrl.see.monitor.panels import FeatureVisualizer, pictures_of
from reelrl.see.monitor.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.see.result import LearnResult

PAGE = Path(__file__).with_name("viewer.html")
PERIOD_S = 0.1
BUSY_SHARE = 0.1
POINTS = 240  # of the chart
CHARTED = (
    "psnr",
    "mean_frame_psnr",
    "previous_frame_psnr",
    "foreground_psnr",
    "mean_frame_foreground_psnr",
    "previous_frame_foreground_psnr",
)


class Viewer:
    """Shows frames that are offered to it. `port` as in `LiveServer`."""

    def __init__(self, source: str, frames: int, port: int | None = None) -> None:
        self.shown = 0
        self._source, self._frames = source, frames
        self._server = LiveServer(PAGE.read_text(encoding="utf-8"), port)
        self._visualizer = FeatureVisualizer()
        self._history: list[list[float | None]] = []
        self._charted: Mapping[str, float] = {}
        self._offered: tuple[int, Snapshot, Mapping[str, float], float] | None = None
        self._next_s = 0.0
        self._last = (time.monotonic(), 0)
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="viewer", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return self._server.url

    def offer(self, step: int, result: LearnResult, figures: Mapping[str, float]) -> None:
        """Show this frame, unless nobody looks or the last one is not drawn yet."""
        if figures and figures is not self._charted:
            self._chart(step, figures)
        now_s = time.monotonic()
        if self._offered is not None or now_s < self._next_s or not self._server.watched:
            return
        before_s, before = self._last
        self._last = now_s, step
        fps = (step - before) / max(now_s - before_s, 1e-9)
        self._offered = step, Snapshot(pictures_of(result)), figures, fps
        self._wake.set()

    def close(self, last_words: str = "the training has ended") -> None:
        """Tell those who look, and end."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self._thread.join()
        self._server.publish({"ended": last_words})
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chart(self, step: int, figures: Mapping[str, float]) -> None:
        self._charted = figures
        point = [step, *(figures.get(name) for name in CHARTED)]
        # Half of the points give way when there are too many: the chart always spans the whole run.
        thinned = self._history if len(self._history) < POINTS else self._history[::2]
        self._history = [*thinned, point]

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closed:
                return
            if self._offered is None:
                continue
            start_s = time.monotonic()
            self._show(*self._offered)
            took_s = time.monotonic() - start_s
            self._next_s = start_s + max(PERIOD_S, took_s / BUSY_SHARE)
            self._offered = None

    def _show(self, step: int, snapshot: Snapshot, figures: Mapping[str, float], fps: float) -> None:
        panels = self._visualizer.panels(snapshot.arrays())
        pictures = {name: data_uri(png_bytes(picture)) for name, picture in panels.items()}
        self.shown += 1
        self._server.publish(
            {
                "source": self._source,
                "frame": step,
                "frames": self._frames,
                "fps": fps,
                "figures": dict(figures),
                "pictures": pictures,
                "chart": self._history,
            }
        )


def data_uri(png: bytes) -> str:
    """A picture as an address that a page can show."""
    return "data:image/png;base64," + base64.b64encode(png).decode()
