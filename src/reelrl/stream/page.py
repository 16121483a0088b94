"""The pages of bitrate control: an evaluation of controllers, and a look at a set of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, line_style, signed, steps
from reelrl.report.forest import Row, forest
from reelrl.report.headline import compared
from reelrl.report.intervals import Interval
from reelrl.report.page import Html, Stat
from reelrl.storage.files import write_atomic
from reelrl.stream.evaluate import share_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.stream.data.traces import Trace
    from reelrl.stream.evaluate import SummaryRow
    from reelrl.stream.playback import Playback

    Points = list[tuple[float, float]]

_MOST_STEPS = 200  # of a distribution: finer cannot be seen, and thousands of sessions would make a page of megabytes
_LEAST_QOE = -3.0  # a few sessions far below would squeeze all others into a line
_LEAST_MBPS = 0.01  # an outage has no place on a logarithmic axis

_METHOD = (
    "Every controller plays every trace and video from the beginning. QoE is per chunk; the first chunk, which nobody "
    "chooses, is left out. Intervals are 95 % bootstrap over sessions; differences are paired on the same trace and "
    "video. Several trainings of one controller are averaged trace by trace."
)
_LIMITS = (
    "Sessions are simulated: one viewer alone on a recorded or generated link, without the reactions of a real "
    "network. QoE is a formula; no viewer was asked. The controller named at the top was picked after these figures "
    "were seen, so a small lead over several others says less than its interval."
)


def write_page(
    path: Path,
    lines: Sequence[SummaryRow],
    reference: str | None,
    facts: dict[str, Any],
    scores: Mapping[str, NDArray[np.float64]],
    sessions: Sequence[tuple[Playback, Trace]],
) -> None:
    """All of an evaluation. `scores` are QoE session by session, by title; `sessions` have timelines."""
    headline, lead = _headline(lines, reference)
    videos = ", ".join(map(str, facts["videos"]))
    scope = f"{facts['traces']} traces ({facts['source']}), {videos}, QoE {facts['qoe']}."
    body = [
        page.stats(_stats(lines, facts)),
        _verdict(lines, reference),
        _table(lines, reference),
        _distribution(scores),
        *(_session(played, trace) for played, trace in sessions),
        page.section("What this does not show", _LIMITS),
        _method(facts),
    ]
    write_atomic(path, page.page(headline, f"{lead} {scope}", body, kicker="reel evaluate abr"))


def write_trace_page(path: Path, traces: Sequence[Trace]) -> None:
    """A set of traces: how fast, how restless, and how often which rate."""
    means = [float(np.average(trace.kbps, weights=trace.durations_ms)) / 1000 for trace in traces]
    spreads = [float(trace.kbps.std() / max(trace.kbps.mean(), 1e-9)) for trace in traces]
    notes = [f"{trace.name}: {mean:.2f} Mbit/s" for trace, mean in zip(traces, means, strict=True)]
    dots = Line("a trace", list(zip(means, spreads, strict=True)), notes=notes, joined=False)
    one = line_chart(
        [dots],
        x=Axis("mean Mbit/s", zero=True),
        y=Axis("deviation / mean", zero=True),
        title="Mean rate and variation of each trace",
    )
    rates = np.maximum(np.concatenate([trace.kbps for trace in traces]) / 1000, _LEAST_MBPS)
    slots = Line("slots", _shares(rates), marker="none")
    two = line_chart(
        [slots],
        x=Axis("Mbit/s of a slot", log=True),
        y=Axis("share of slots", zero=True),
        title="Distribution of the rates of slots",
    )
    charts = page.columns(
        page.figure(one, "Farther up is more restless. Point at a dot for its trace."),
        page.figure(two, f"Slots at or below a rate; those below {_LEAST_MBPS} Mbit/s stand there."),
    )
    longest = sum(trace.duration_s for trace in traces) / 60
    count = f"{len(traces)} trace{'s' if len(traces) != 1 else ''}"
    title = f"{count}, {float(np.mean(means)):.2f} Mbit/s on average"
    lead = f"{longest:.0f} minutes in all, means from {min(means):.2f} to {max(means):.2f} Mbit/s."
    write_atomic(path, page.page(title, lead, [charts], kicker="reel traces"))


def _headline(lines: Sequence[SummaryRow], reference: str | None) -> tuple[str, str]:
    """Who is best and by how much, then how sure that is."""
    fair = [line for line in lines if not line.privileged] or list(lines)
    best = fair[0]
    if reference is not None and best.name != reference and best.paired:
        return compared(best.title, reference, best.paired, "QoE per chunk")
    second = next((line for line in fair[1:] if line.paired), None)
    if second is not None and second.paired:
        mean, low, high = second.paired
        return compared(best.title, second.title, Interval(-mean, -high, -low), "QoE per chunk")
    return f"{best.title}: {best.qoe.mean:.3f} QoE per chunk", f"95 % interval {_between(best.qoe)}."


def _between(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def _figure(interval: Interval) -> str:
    return f"{interval.mean:.4f} [{interval.low:.3f}, {interval.high:.3f}]"


def _difference(interval: Interval) -> str:
    return f"{signed(interval.mean, 4)} [{signed(interval.low, 3)}, {signed(interval.high, 3)}]"


def _stats(lines: Sequence[SummaryRow], facts: dict[str, Any]) -> list[Stat]:
    best = next((line for line in lines if not line.privileged), lines[0])
    found = [Stat(f"{best.qoe.mean:.3f}", f"QoE of {best.title}", f"95 % interval {_between(best.qoe)}")]
    if best.best_share is not None:
        ceiling = share_title(list(lines)).removeprefix("of ")
        found.append(Stat(f"{100 * best.best_share:.1f} %", f"of the {ceiling}", "of one that knows the future"))
    found.append(Stat(f"{best.rebuffer_s:.2f} s", "stalled per session", f"{best.title}, mean"))
    found.append(Stat(str(facts["sessions"]), "sessions in all", f"{facts['traces']} traces, {len(lines)} controllers"))
    return found


def _verdict(lines: Sequence[SummaryRow], reference: str | None) -> Html:
    if reference is None:
        rows = [Row(line.title, line.qoe, _figure(line.qoe)) for line in lines]
        chart = forest(rows, title="Mean QoE of each controller")
        return page.section("QoE", "Right is better.", page.figure(chart, "QoE per chunk: mean and 95 % interval."))
    rows = [Row(line.title, line.paired, _difference(line.paired)) for line in lines if line.paired]
    if not rows:
        return Html("")
    chart = forest(rows, title=f"Differences of QoE to {reference}", lower_is_better=False)
    caption = (
        "QoE per chunk: mean paired difference and 95 % interval. An interval across the line shows no difference."
    )
    lead = f"Right of the line is better than {reference} on the same traces."
    return page.section(f"Against {reference}", lead, page.figure(chart, caption))


def _table(lines: Sequence[SummaryRow], reference: str | None) -> Html:
    heads = ["controller", "QoE [95 %]", *([f"against {reference} [95 %]"] if reference else [])]
    shares = any(line.best_share is not None for line in lines)
    heads += [share_title(list(lines))] if shares else []
    heads += ["median", "p10", "quality", "rebuffer", "smooth", "stall s", "switches"]
    rows = []
    for line in lines:
        paired = [_difference(line.paired) if line.paired else ""] if reference else []
        share = ["" if line.best_share is None else f"{100 * line.best_share:.1f} %"] if shares else []
        terms = [f"{value:.3f}" for value in (line.median, line.p10, line.quality, line.rebuffer, line.smooth)]
        rows.append(
            [line.title, _figure(line.qoe), *paired, *share, *terms, f"{line.rebuffer_s:.2f}", f"{line.switches:.1f}"]
        )
    lead = (
        "QoE is quality less what rebuffering and switching cost, each per chunk. p10: a tenth of sessions are below."
    )
    return page.section("What it is made of", lead, page.table(heads, rows))


def _distribution(scores: Mapping[str, NDArray[np.float64]]) -> Html:
    left = max(min(float(np.percentile(values, 5)) for values in scores.values()), _LEAST_QOE)
    lines = [
        Line(title, _shares(values, left), **line_style(number) | {"marker": "none"})
        for number, (title, values) in enumerate(scores.items())
    ]
    x, y = Axis("QoE per chunk"), Axis("share of sessions", zero=True)
    chart = line_chart(lines, x=x, y=y, title="Distribution of QoE over sessions")
    caption = "The share of sessions at or below each QoE: the farther right a curve, the better."
    lead = f"What lies behind the means. Sessions below {left:.2f} are counted, not drawn."
    return page.section("All sessions", lead, page.columns(page.figure(chart, caption), ""))


def _shares(values: NDArray[np.float64], left: float | None = None) -> Points:
    """Steps of a distribution: each value with the share of values at or below it."""
    ordered = np.sort(values)
    ranks = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST_STEPS)).round().astype(int))
    places = [(float(ordered[rank]), (int(rank) + 1) / len(ordered)) for rank in ranks]
    if left is None:
        return steps([(places[0][0], 0.0), *places])
    below = float(np.count_nonzero(ordered < left)) / len(ordered)
    return steps([(left, below), *(place for place in places if place[0] >= left)])


def _session(played: Playback, trace: Trace) -> Html:
    """Bitrate and bandwidth, buffer and stalls over the time of one session."""
    line = played.timeline
    # The link's own clock: requests follow each other, a full buffer waits in between.
    ends = np.cumsum(np.add(line["delay_ms"], line["sleep_ms"])) / 1000.0
    starts = np.concatenate([[0.0], ends[:-1]])
    rates = np.array(line["bitrate_kbps"]) / 1000.0
    bandwidth = _bandwidth(trace, float(ends[-1]), 1.2 * float(rates.max()))
    chosen = steps([*zip(starts.tolist(), rates.tolist(), strict=True), (float(ends[-1]), float(rates[-1]))])
    above = line_chart(
        [
            Line("bandwidth", bandwidth, colour="quiet", marker="none"),
            Line("bitrate", chosen, colour="one", marker="none"),
        ],
        x=Axis("seconds", zero=True),
        y=Axis("Mbit/s", zero=True),
        title=f"{played.controller} on {played.trace}: bandwidth and bitrate",
    )
    stalls = [
        (max(float(start), float(end) - stall), float(end))
        for start, end, stall in zip(starts, ends, line["rebuffer_s"], strict=True)
        if stall > 0
    ]
    below = line_chart(
        [Line("buffer", list(zip(ends.tolist(), line["buffer_s"], strict=True)), marker="none")],
        x=Axis("seconds", zero=True),
        y=Axis("seconds in the buffer", zero=True),
        title=f"{played.controller} on {played.trace}: buffer and stalls",
        bands=stalls,
    )
    lead = (
        f"The trace of its median QoE, {played.trace}: {played.qoe:.3f} per chunk, {played.rebuffer_s:.2f} s stalled."
    )
    return page.section(
        f"A middling session of {played.controller}",
        lead,
        page.columns(
            page.figure(above, "What the link gave and what was asked for; bandwidth far above all bitrates is cut."),
            page.figure(below, "Seconds of video in the buffer. Stalls are shaded, the one at the start too."),
        ),
    )


def _bandwidth(trace: Trace, until_s: float, most_mbps: float) -> Points:
    """The trace's rates over the session, passes laid end to end; the part far above the bitrates is cut."""
    passes = int(until_s // trace.duration_s) + 1
    starts = (trace.edges_s[:-1] - trace.edges_s[0])[None, :] + trace.duration_s * np.arange(passes)[:, None]
    times, mbps = starts.ravel(), np.minimum(np.tile(trace.kbps / 1000.0, passes), most_mbps)
    inside = times < until_s
    places = list(zip(times[inside].tolist(), mbps[inside].tolist(), strict=True))
    return steps([*places, (until_s, places[-1][1])])


def _method(facts: dict[str, Any]) -> Html:
    plain = facts | {"videos": ", ".join(map(str, facts["videos"]))}
    named = [(str(key), str(value)) for key, value in plain.items() if key != "command" and value != ""]
    return page.section("How", _METHOD, page.facts(named), page.code(str(facts.get("command", ""))))
