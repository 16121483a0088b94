"""Real viewings in real browsers, beside what the simulator says of the same trace, controller and ladder.

server (shaped link, decisions) ◄── Chromium, dash.js, the page ──► what was downloaded, when it stalled
simulator, same trace and controller                            ──► what it predicts
"""

from __future__ import annotations

import copy
import threading
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
WAITED_MS = 100.0
"""No pause of the player's own is that long: it waited for room in its buffer."""
STEP_S = 0.5
"""The simulator waits in steps of this, so that its buffer is on average half a step below its limit."""


class Viewed(NamedTuple):
    """What the page recorded of one viewing."""

    controller: str
    trace: str
    record: dict[str, Any]


@dataclass(frozen=True)
class Watched:
    """One viewing: what the browser measured, what the simulator says, and what it says knowing the player's habits."""

    controller: str
    trace: str
    qoe: float
    stalled_s: float
    switches: int
    kbps: float
    predicted: float
    predicted_by_habits: float
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


def watch(
    url: str, controller: str, trace: str, qoe: str, deadline_s: float, stopped: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """The record of one viewing, from the first segment to the last."""
    with Chromium(640, 480, deadline_s=deadline_s) as browser:
        browser.open(url + "?" + urlencode({"controller": controller, "trace": trace, "qoe": qoe}))
        try:
            browser.wait_for("window.reel && (window.reel.done || window.reel.error)", every_s=0.5, stopped=stopped)
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
    stopped = threading.Event()
    limit_s = deadline_s or 60.0 + PATIENCE * show.video.chunks * show.video.chunk_s

    def one(pair: tuple[str, str]) -> Viewed | None:
        try:
            viewed = Viewed(*pair, watch(url, *pair, qoe, limit_s, stopped.is_set))
        except BrowserError as error:  # the other viewings are worth keeping
            ended(error)
            return None
        ended(None)
        return viewed

    with ThreadPoolExecutor(at_once) as pool:
        try:
            return [viewed for viewed in pool.map(one, pairs) if viewed is not None]
        except BaseException:  # Ctrl+C: close the browsers, and begin no more viewings
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


class Habits(NamedTuple):
    """What a real player does differently: its pause between two segments, and how full it keeps its buffer."""

    pause_ms: float
    full_s: float


def habits(records: Sequence[dict[str, Any]], cap_s: float) -> Habits:
    """Medians: of the time from a download's end to the next request, and of the buffer where it waited for room."""
    pauses, levels = [], []
    for record in records:
        asked = {each["segment"]: each["buffer_s"] for each in record["decisions"]}
        for before, after in pairwise(record["downloads"]):
            gap_ms = (after["at_s"] - before["at_s"]) * 1000.0 - after["download_ms"]
            if gap_ms <= WAITED_MS:
                pauses.append(gap_ms)
            elif asked.get(after["segment"], 0.0) > cap_s / 2:  # else it was busy with something else, as at the start
                levels.append(asked[after["segment"]])
    return Habits(
        max(float(np.median(pauses)), 0.0) if pauses else 0.0,
        min(float(np.median(levels)), cap_s) if levels else cap_s,
    )


def compared(show: Show, viewings: Sequence[Viewed], qoe: str = "linear") -> tuple[list[Watched], Habits]:
    """The viewings beside their predictions, and the habits of the player where our controllers decide."""
    traces = {trace.name: trace for trace in show.traces}
    cap_s = show.buffer_cap_s
    seen = habits([record for name, _, record in viewings if show.controllers[name] is not None], cap_s)
    found = []
    for name, trace, record in viewings:
        plain = _predicted(show, name, traces[trace], qoe, Habits(0.0, cap_s))
        by_habits = _predicted(show, name, traces[trace], qoe, seen)
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
                predicted_by_habits=by_habits.qoe,
                predicted_stalled_s=plain.rebuffer_s,
                record=record,
            )
        )
    return found, seen


def _predicted(show: Show, name: str, trace: Trace, qoe: str, known: Habits) -> Playback:
    loaded = show.controllers[name]
    controller: Controller = DashJs() if loaded is None else copy.copy(loaded)
    full_s = known.full_s + STEP_S / 2 if known.full_s < show.buffer_cap_s else known.full_s
    buffer_s = DASHJS_BUFFER_S if loaded is None else full_s
    return play(
        controller,
        trace,
        read_ladder(show.folder),
        name=name,
        preset=None,
        qoe=qoe,
        buffer_s=buffer_s,
        queue_delay_ms=show.rule.rtt_ms + known.pause_ms,
    )


def agreement(viewings: Sequence[Watched], *, by_habits: bool = False) -> Agreement:
    """How well the simulator predicts these viewings."""
    measured = np.array([each.qoe for each in viewings])
    predicted = np.array([each.predicted_by_habits if by_habits else each.predicted for each in viewings])
    varies = len(viewings) > 1 and measured.std() > 0 and predicted.std() > 0
    return Agreement(
        sessions=len(viewings),
        measured=float(measured.mean()),
        predicted=float(predicted.mean()),
        error=float((predicted - measured).mean()),
        absolute_error=float(np.abs(predicted - measured).mean()),
        correlation=float(np.corrcoef(measured, predicted)[0, 1]) if varies else float("nan"),
    )
