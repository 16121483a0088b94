"""One HTML page about an evaluation of superblock maps: verdicts, every clip, rate-distortion curves, the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.superblock.evaluate import NO_MAP
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, signed
from reelrl.report.forest import bd_forest
from reelrl.report.page import Html, tag
from reelrl.report.verdicts import METRIC_NAMES, shown
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.superblock.evaluate import EncodePoint
    from reelrl.report.verdicts import ClipResult, Verdict

_METHOD = (
    "BD-rate is the change in bits at equal quality, so below zero is a saving: PCHIP through the points, rates as "
    "logarithms, over the qualities that both curves reach. Means are over clips; intervals are 95 % bootstrap over "
    "clips. Map controllers are compared with the same encoder without maps, the encoder's own modes with its plain "
    "crf: their figures do not compare with each other. A curve that is not monotone gives no figure and is listed."
)


def write_page(
    path: Path,
    points: Sequence[EncodePoint],
    results: Sequence[ClipResult],
    summary: Sequence[Verdict],
    facts: dict[str, Any],
) -> None:
    """Everything on one page."""
    metrics = list(facts["metrics"])
    body = [
        _verdicts(summary, metrics),
        _forests(summary, results, metrics),
        _clips(results, metrics),
        _curves(points, summary),
        _method(summary, facts),
    ]
    lead = f"{facts['clips']} clips, {facts['frames']} frames each at QPs {facts['qps']}, {facts['encoder']}."
    write_atomic(path, page.page("Superblock maps", lead, body, kicker="reel evaluate superblock"))


def _verdicts(summary: Sequence[Verdict], metrics: Sequence[str]) -> Html:
    found = {(each.contestant, each.metric): each for each in summary}
    names = dict.fromkeys((each.contestant, each.anchor) for each in summary)
    rows = [[name, anchor, *(shown(found.get((name, metric))) for metric in metrics)] for name, anchor in names]
    heads = ["contestant", "against", *(METRIC_NAMES[metric] for metric in metrics)]
    return page.section("BD-rate, percent", "Mean over clips and 95 % interval.", page.table(heads, rows))


def _forests(summary: Sequence[Verdict], results: Sequence[ClipResult], metrics: Sequence[str]) -> Html:
    charts = [
        page.figure(
            bd_forest([each for each in summary if each.metric == metric], results, f"BD-rates by {metric}"),
            f"{METRIC_NAMES[metric]}: mean, interval, and every clip as a dot. Left of the line is a saving.",
        )
        for metric in metrics
    ]
    return page.section("Every clip", "What lies behind the means.", *charts)


def _clips(results: Sequence[ClipResult], metrics: Sequence[str]) -> Html:
    """A table per metric; never-compressed clips first, and apart."""
    names = list(dict.fromkeys(result.contestant for result in results))
    parts = []
    for metric in metrics:
        found = {(r.contestant, r.clip): r for r in results if r.metric == metric}
        clips = {r.clip: r for r in results}
        rows = []
        for clip, one in sorted(clips.items(), key=lambda item: (not item[1].pristine, item[0])):
            kind = f"{one.split}, {'pristine' if one.pristine else 'compressed before'}"
            rows.append([clip, kind, *(_figure(found.get((name, clip))) for name in names)])
        parts.append(page.details(METRIC_NAMES[metric], page.table(["clip", "kind", *names], rows)))
    lead = "BD-rate in percent for each clip, losers included; * marks a figure with doubts, - one that is missing."
    return page.section("Clip by clip", lead, *parts)


def _figure(result: ClipResult | None) -> str:
    if result is None or result.bd.percent is None:
        return "-"
    return signed(result.bd.percent, 2) + ("*" if result.bd.doubts else "")


def _curves(points: Sequence[EncodePoint], summary: Sequence[Verdict]) -> Html:
    """No map and the contestant that does best by any metric, clip by clip."""
    judged = [each for each in summary if each.percent and each.anchor == NO_MAP]
    if not judged:
        return Html("")
    best = min(judged, key=lambda each: each.percent.mean if each.percent else 0.0)
    charts = []
    for clip in dict.fromkeys(point.clip for point in points):
        lines = []
        for name, colour in ((NO_MAP, "quiet"), (best.contestant, "one")):
            mine = sorted((p for p in points if p.clip == clip and p.contestant == name), key=lambda p: -p.qp)
            places = [(p.measured.kbps, p.measured.quality[best.metric]) for p in mine]
            notes = [f"{clip}, {name}, QP {p.qp}: {p.measured.kbps:.1f} kbit/s" for p in mine]
            lines.append(Line(name, places, colour=colour, dashed=name == NO_MAP, notes=notes))
        x, y = Axis("kbit/s", log=True), Axis(METRIC_NAMES[best.metric])
        charts.append(page.figure(line_chart(lines, x=x, y=y, title=f"{clip}: rate and quality"), clip))
    lead = f"No map and {best.contestant}, by {METRIC_NAMES[best.metric]}, where it does best."
    return page.section("Rate and quality", lead, page.columns(*charts[:2]), page.details("All clips", *charts[2:]))


def _method(summary: Sequence[Verdict], facts: dict[str, Any]) -> Html:
    missing = [
        f"{each.contestant}, {METRIC_NAMES[each.metric]}, {clip}: {why}"
        for each in summary
        for clip, why in (each.left_out | each.doubted).items()
    ]
    told = [(str(key), str(value)) for key, value in facts.items() if key != "command"]
    doubts = page.details(f"{len(missing)} figures missing or in doubt", *(tag("p", line) for line in missing))
    return page.section("How", _METHOD, page.facts(told), doubts, page.code(str(facts.get("command", ""))))
