"""One HTML page about an evaluation of superblock maps: verdicts, every clip, rate-distortion curves, the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.superblock.contestants import NO_MAP
from reelrl.encode.superblock.over_time import TIME_RULE
from reelrl.report import bd_page, page
from reelrl.report.charts import Line
from reelrl.report.forest import bd_forest
from reelrl.report.page import Html
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
    "crf: their figures do not compare with each other. time-rule sends no map: its key frame is 12 QP finer, frames "
    "after cuts 8; agents that move whole frames are compared with it. A curve that is not monotone gives no figure "
    "and is listed."
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
        _forests(summary, results, metrics),
        _verdicts(summary, metrics),
        # The anchor is known by the contestant: maps have one, the encoder's own modes another.
        bd_page.clip_tables(results, {("", metric): METRIC_NAMES[metric] for metric in metrics}),
        _curves(points, summary),
        bd_page.method(_METHOD, summary, facts),
    ]
    # The headline is by PSNR-Y, the first metric: everybody is judged by it, whatever a policy was fitted to.
    maps = [each for each in summary if each.anchor == NO_MAP and each.contestant != TIME_RULE] or list(summary)
    headline, sure = bd_page.headline([each for each in maps if each.metric == metrics[0]], results)
    scope = f"{facts['clips']} clips, {facts['frames']} frames each at QPs {facts['qps']}, {facts['encoder']}."
    write_atomic(
        path, page.page(headline, f"{sure} {scope}", body, kicker="reel evaluate superblock: maps of QP offsets")
    )


def _verdicts(summary: Sequence[Verdict], metrics: Sequence[str]) -> Html:
    by_name = {(each.contestant, each.metric): each for each in summary}
    names = dict.fromkeys((each.contestant, each.anchor) for each in summary)
    rows = [[name, anchor, *(shown(by_name.get((name, metric))) for metric in metrics)] for name, anchor in names]
    heads = ["contestant", "against", *(METRIC_NAMES[metric] for metric in metrics)]
    return page.section(
        "By every metric", "BD-rate in percent: mean over clips and 95 % interval.", page.table(heads, rows)
    )


def _forests(summary: Sequence[Verdict], results: Sequence[ClipResult], metrics: Sequence[str]) -> Html:
    charts = [
        page.figure(
            bd_forest([each for each in summary if each.metric == metric], results, f"BD-rates by {metric}"),
            f"{METRIC_NAMES[metric]}: mean, interval, and every clip as a dot. Left of the line is a saving.",
        )
        for metric in metrics
    ]
    return page.section("BD-rate, percent", "Change in bits at equal quality: left of the line is a saving.", *charts)


def _curves(points: Sequence[EncodePoint], summary: Sequence[Verdict]) -> Html:
    """No map and the contestant that does best by any metric, clip by clip."""
    judged = [each for each in summary if each.percent and each.anchor == NO_MAP and each.contestant != TIME_RULE]
    if not judged:
        return Html("")
    # One contestant alone: savings of a few percent would lie on top of each other.
    best = min(judged, key=lambda each: each.percent.mean if each.percent else 0.0)
    by_clip = {}
    for clip in dict.fromkeys(point.clip for point in points):
        lines = []
        for name, colour in ((NO_MAP, "quiet"), (best.contestant, "one")):
            own = (p for p in points if p.clip == clip and p.contestant == name and p.window == 0)
            curve = sorted(own, key=lambda p: -p.qp)
            places = [(p.measured.kbps, p.measured.quality[best.metric]) for p in curve]
            notes = [f"{clip}, {name}, QP {p.qp}: {p.measured.kbps:.1f} kbit/s" for p in curve]
            lines.append(Line(name, places, colour=colour, dashed=name == NO_MAP, notes=notes))
        by_clip[clip] = lines
    lead = f"No map and {best.contestant}, by {METRIC_NAMES[best.metric]}, where it does best."
    return bd_page.curves(by_clip, best.metric, lead)
