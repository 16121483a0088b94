"""Pictures of bitrate control: how QoE is distributed, and what happened within one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.storage.files import atomic_path
from reelrl.stream.evaluate import scores

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.data.traces import Trace
    from reelrl.stream.evaluate import Contender
    from reelrl.stream.playback import Playback


def draw_cdf(
    path: Path, contenders: list[Contender], played: dict[str, list[Playback]], titles: dict[str, str]
) -> None:
    """One curve per contender, under its title: the share of sessions at or below each QoE."""
    figure, axes = _figure(7.0, 4.2)
    lowest = np.inf
    for contender in contenders:
        values = np.sort(scores(played[contender.name], len(contender.members)))
        axes.step(values, np.arange(1, len(values) + 1) / len(values), where="post", label=titles[contender.name])
        lowest = min(lowest, float(np.percentile(values, 5)))
    axes.set_xlim(left=max(lowest, -3.0))  # a few sessions far below would squeeze all others into a line
    axes.set_xlabel("QoE per chunk")
    axes.set_ylabel("share of sessions")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)


def draw_timeline(path: Path, playback: Playback, trace: Trace) -> None:
    """Bitrate and bandwidth above, buffer and stalls below, over the time of one session."""
    line = playback.timeline
    # The link's own clock: requests follow each other, a full buffer waits in between.
    ends = np.cumsum(np.add(line["delay_ms"], line["sleep_ms"])) / 1000.0
    starts = np.concatenate([[0.0], ends[:-1]])
    figure, (above, below) = _figure(8.0, 5.0, rows=2)
    times, mbps = _bandwidth(trace, float(ends[-1]))
    above.fill_between(times, mbps, step="pre", alpha=0.25, label="bandwidth")
    above.step(ends, np.array(line["bitrate_kbps"]) / 1000.0, where="pre", color="C3", label="bitrate")
    above.set_ylim(0, max(np.percentile(mbps, 95), max(line["bitrate_kbps"]) / 1000.0) * 1.2)
    above.set_ylabel("Mbit/s")
    above.legend(fontsize=8)
    above.set_title(f"{playback.controller} on {playback.trace}: QoE {playback.qoe:.3f}", fontsize=10)
    below.plot(ends, line["buffer_s"], color="C0", label="buffer")
    stalls = np.array(line["rebuffer_s"])
    for start, end, stall in zip(starts, ends, stalls, strict=True):
        if stall > 0:
            below.axvspan(max(start, end - stall), end, color="C3", alpha=0.3)
    below.set_ylabel("buffer s (stalls shaded)")
    below.set_xlabel("seconds")
    for axes in (above, below):
        axes.set_xlim(0.0, float(ends[-1]))
    _save(figure, path)


def draw_traces(path: Path, traces: list[Trace]) -> None:
    """Mean rate against its variation, one dot per trace, and the distribution of slot rates."""
    figure, (above, below) = _figure(7.0, 6.0, rows=2)
    means = np.array([np.average(t.kbps, weights=t.durations_ms) for t in traces]) / 1000.0
    spreads = np.array([t.kbps.std() / max(t.kbps.mean(), 1e-9) for t in traces])
    above.scatter(means, spreads, s=12, alpha=0.6)
    above.set_xlabel("mean Mbit/s")
    above.set_ylabel("deviation / mean")
    rates = np.sort(np.concatenate([t.kbps for t in traces])) / 1000.0
    below.plot(rates, np.linspace(0.0, 1.0, len(rates)))
    below.set_xscale("symlog", linthresh=0.1)
    below.set_xlabel("Mbit/s of a slot")
    below.set_ylabel("share of slots")
    _save(figure, path)


def _bandwidth(trace: Trace, until_s: float) -> tuple[Any, Any]:
    """The trace's rates over the session, passes laid end to end."""
    passes = int(until_s // trace.duration_s) + 1
    edges = (trace.edges_s[1:] - trace.edges_s[0])[None, :] + trace.duration_s * np.arange(passes)[:, None]
    return edges.ravel(), np.tile(trace.kbps / 1000.0, passes)


def _figure(width: float, height: float, rows: int = 1) -> tuple[Any, Any]:
    # The object interface: pyplot would pick a window system and keep every figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="tight")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, 1)


def _save(figure: Any, path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=110)
