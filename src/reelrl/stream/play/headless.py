"""Real viewings in real browsers, beside what the simulator says of the same trace, controller and ladder.

server (shaped link, decisions) ◄── Chromium, dash.js, the page ──► what was downloaded, when it stalled
simulator, same trace and controller                            ──► what it predicts
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from reelrl.stream.controllers.dashjs import DashJs
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.play.chromium import BrowserError, Chromium
from reelrl.stream.playback import Playback, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.stream.controllers.protocol import Controller
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.play.service import Show

PATIENCE = 5.0
"""A viewing that takes longer than this many times the video is given up."""
DASHJS_BUFFER_S = 18.0
"""dash.js's bufferTimeDefault: how far ahead it downloads when nobody tells it otherwise."""
PROGRESS = """window.reel?.viewing ? `${window.reel.viewing.video.currentTime.toFixed(1)} s played, ` +
    `${window.reel.viewing.record.downloads.length} downloads, ${document.getElementById("state").textContent}`
    : "no viewing began" """
FULL_S = 1.0
"""A player that close to its limit waits on purpose."""


class Viewed(NamedTuple):
    """What the page recorded of one viewing."""

    controller: str
    trace: str
    record: dict[str, Any]


@dataclass(frozen=True)
class Watched:
    """One viewing: what the browser measured, and what the simulator says without and with the player's own pauses."""

    controller: str
    trace: str
    qoe: float
    stalled_s: float
    switches: int
    kbps: float
    predicted: float
    predicted_with_pauses: float
    predicted_stalled_s: float
    record: dict[str, Any] = field(repr=False)

    def row(self) -> dict[str, Any]:
        """Without the record."""
        found = asdict(self)
        del found["record"]
        return found


@dataclass(frozen=True)
class Agreement:
    """Browser and simulator over the viewings of one controller, or of all."""

    sessions: int
    measured: float
    predicted: float
    error: float  # mean of predicted - measured
    absolute_error: float
    correlation: float  # NaN where one of the two does not vary


def watch(url: str, controller: str, trace: str, qoe: str, deadline_s: float) -> dict[str, Any]:
    """The record of one viewing, from the first segment to the last."""
    with Chromium(640, 480, deadline_s=deadline_s) as browser:
        browser.open(url + "?" + urlencode({"controller": controller, "trace": trace, "qoe": qoe}))
        try:
            browser.wait_for("window.reel && (window.reel.done || window.reel.error)", every_s=0.5)
        except BrowserError as error:
            raise BrowserError(
                f"{controller} on {trace} has not ended after {deadline_s:g} s ({browser.evaluate(PROGRESS)}); "
                f"open {url} to look at it"
            ) from error
        wrong = browser.evaluate("window.reel.error")
        if wrong:
            raise BrowserError(f"{controller} on {trace}: the page says {wrong!r}; open {url} to look at it")
        record: dict[str, Any] = browser.evaluate("window.reel.record")
        return record


def watch_all(
    show: Show,
    url: str,
    pairs: Sequence[tuple[str, str]],
    *,
    qoe: str = "linear",
    at_once: int = 2,
    deadline_s: float | None = None,
    ended: Callable[[BrowserError | None], None] = lambda _: None,
) -> list[Viewed]:
    """The viewings of (controller, trace) that came to their end, in that order; so many browsers at a time.

    `ended` hears of each one, and why it was lost. Without `deadline_s` a viewing has five times the video.
    """
    limit_s = deadline_s or 60.0 + PATIENCE * show.video.chunks * show.video.chunk_s

    def one(pair: tuple[str, str]) -> Viewed | None:
        try:
            viewed = Viewed(*pair, watch(url, *pair, qoe, limit_s))
        except BrowserError as error:  # the other viewings are worth keeping
            ended(error)
            return None
        ended(None)
        return viewed

    with ThreadPoolExecutor(at_once) as pool:
        return [viewed for viewed in pool.map(one, pairs) if viewed is not None]


def pause_ms(records: Sequence[dict[str, Any]], cap_s: float) -> float:
    """Median time between the end of a download and the next request, where the player had room for more."""
    gaps = []
    for record in records:
        arrived = record["downloads"]
        for before, after in pairwise(arrived):
            if before["buffer_s"] < cap_s - FULL_S:
                gaps.append((after["at_s"] - before["at_s"]) * 1000.0 - after["download_ms"])
    return max(float(np.median(gaps)), 0.0) if gaps else 0.0


def compared(show: Show, viewings: Sequence[Viewed], qoe: str = "linear") -> tuple[list[Watched], float]:
    """The viewings beside their predictions, and the player's pause between two segments in milliseconds."""
    traces = {trace.name: trace for trace in show.traces}
    ours = [record for name, _, record in viewings if show.controllers[name] is not None]
    pause = pause_ms(ours, show.buffer_cap_s)
    found = []
    for name, trace, record in viewings:
        plain, paused = (_predicted(show, name, traces[trace], qoe, extra_ms) for extra_ms in (0.0, pause))
        rungs = [each["rung"] for each in record["downloads"] if not each["abandoned"]]
        found.append(
            Watched(
                controller=name,
                trace=trace,
                qoe=record["qoe"]["mean"],
                stalled_s=record["qoe"]["stalled_s"],
                switches=record["qoe"]["switches"],
                kbps=float(show.video.bitrates_kbps[rungs].mean()),
                predicted=plain.qoe,
                predicted_with_pauses=paused.qoe,
                predicted_stalled_s=plain.rebuffer_s,
                record=record,
            )
        )
    return found, pause


def _predicted(show: Show, name: str, trace: Trace, qoe: str, pause: float) -> Playback:
    loaded = show.controllers[name]
    controller: Controller = DashJs() if loaded is None else copy.copy(loaded)
    buffer_s = DASHJS_BUFFER_S if loaded is None else show.buffer_cap_s
    return play(
        controller,
        trace,
        read_ladder(show.folder),
        name=name,
        preset=None,
        qoe=qoe,
        buffer_s=buffer_s,
        queue_delay_ms=show.rule.rtt_ms + pause,
    )


def agreement(viewings: Sequence[Watched], *, with_pauses: bool = False) -> Agreement:
    """How well the simulator predicts these viewings."""
    measured = np.array([each.qoe for each in viewings])
    predicted = np.array([each.predicted_with_pauses if with_pauses else each.predicted for each in viewings])
    varies = len(viewings) > 1 and measured.std() > 0 and predicted.std() > 0
    return Agreement(
        sessions=len(viewings),
        measured=float(measured.mean()),
        predicted=float(predicted.mean()),
        error=float((predicted - measured).mean()),
        absolute_error=float(np.abs(predicted - measured).mean()),
        correlation=float(np.corrcoef(measured, predicted)[0, 1]) if varies else float("nan"),
    )
