"""One HTML page about an evaluation of bitrate control: verdicts, rates, every clip, curves, the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.encode.minigop.evaluation.encoder_modes import MODES
from reelrl.encode.minigop.evaluation.summary import rate_rows
from reelrl.report import bd_page, page
from reelrl.report.charts import Axis, Line, line_chart, line_style
from reelrl.report.forest import bd_forest
from reelrl.report.page import Html, tag
from reelrl.report.verdicts import METRIC_NAMES, shown
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.minigop.evaluation.rate_point import RatePoint
    from reelrl.encode.minigop.evaluation.summary import RateUse
    from reelrl.report.verdicts import ClipResult, Verdict

_METHOD = (
    "BD-rate is the change in bits at equal quality, so below zero is a saving: rates as logarithms, over the "
    "qualities that both curves reach, at the rates that were really spent. Target rates of a clip are those of its "
    "crf encodes. Means are over clips; intervals are 95 % bootstrap over clips. A curve that is not monotone gives no "
    "figure and is listed. Passes count first and probe passes, and their time is charged. A late frame is one that a "
    "leaky bucket of the stated size, drained at the target rate, had no room for."
)


def write_page(
    path: Path,
    points: Sequence[RatePoint],
    results: Sequence[ClipResult],
    summary: Sequence[Verdict],
    uses: Sequence[RateUse],
    facts: dict[str, Any],
    *,
    kicker: str = "reel evaluate minigop",
    method: str = _METHOD,
) -> None:
    """Everything on one page."""
    head, *rows = rate_rows(uses)
    pairs = dict.fromkeys((result.anchor, result.metric) for result in results)
    titles = {(anchor, metric): f"{METRIC_NAMES[metric]} against {anchor}" for anchor, metric in pairs}
    body = [
        _warnings(facts["warnings"]),  # before any figure: rows with other numbers of passes are no equals
        *(_against(anchor, summary, results, uses) for anchor in facts["anchors"]),
        page.section("Rates", "Distance from the target in percent, and what it took.", page.table(head, rows)),
        _errors(points, uses),
        bd_page.clip_tables(results, titles),
        _curves(points, [use.contestant for use in uses]),
        bd_page.method(method, summary, facts, hidden=("command", "warnings")),
    ]
    # The headline is about controllers: not the encoder's own modes, nor (with a note) those that know the future.
    fair = {use.contestant for use in uses if use.contestant not in MODES and not use.note}
    first = [each for each in summary if each.anchor == facts["anchors"][0] and each.metric == "psnr_y"]
    headline, sure = bd_page.headline([each for each in first if each.contestant in fair] or first, results)
    scope = f"{len(facts['clips'])} clips at the rates of QPs {facts['qps']}, {facts['encoder']}."
    write_atomic(path, page.page(headline, f"{sure} {scope}", body, kicker=kicker))


def _warnings(notes: Sequence[str]) -> Html:
    if not notes:
        return Html("")
    lines = [tag("p", line, class_="note") for line in notes]
    return page.section("Before you compare", "What differs between rows.", *lines)


def _against(anchor: str, summary: Sequence[Verdict], results: Sequence[ClipResult], uses: Sequence[RateUse]) -> Html:
    """BD-rates against one anchor: a table of all metrics, and a forest of PSNR-Y."""
    against = [each for each in summary if each.anchor == anchor]
    metrics = list(dict.fromkeys(each.metric for each in against))
    verdict_of = {(each.contestant, each.metric): each for each in against}
    rows = []
    for use in uses:
        first = verdict_of.get((use.contestant, metrics[0]))
        if first is None:
            continue
        wins = f"{first.better} : {first.worse} (p {first.sign_p:.2g}, {first.wilcoxon_p:.2g})"
        figures = [shown(verdict_of.get((use.contestant, metric))) for metric in metrics]
        rows.append([use.contestant, use.passes, *figures, wins])
    heads = ["contestant", "passes", *(METRIC_NAMES[metric] for metric in metrics), "clips won : lost (sign, Wilcoxon)"]
    chart = bd_forest(
        [each for each in against if each.metric == "psnr_y"], results, f"BD-rates by PSNR-Y against {anchor}"
    )
    lead = "BD-rate in percent: mean over clips and 95 % interval."
    shape = page.figure(chart, "PSNR-Y: mean, interval, and every clip as a dot. Left of the line is a saving.")
    return page.section(f"Against {anchor}", lead, shape, page.table(heads, rows))


def _errors(points: Sequence[RatePoint], uses: Sequence[RateUse]) -> Html:
    """Two charts: absolute errors of each contestant in order, and on which side of the target it lies at each rate."""
    sizes, sides = [], []
    for number, use in enumerate(use for use in uses if use.error):
        own = [point for point in points if point.contestant == use.contestant]
        errors = sorted(abs(point.error_percent) for point in own)
        places = [(100 * (rank + 1) / len(errors), error) for rank, error in enumerate(errors)]
        sizes.append(Line(use.contestant, places, **line_style(number) | {"marker": "none"}))
        by_qp = {qp: [p.error_percent for p in own if p.qp == qp] for qp in sorted({p.qp for p in own})}
        # With their signs, rate by rate: over all rates, too much here and too little there would cancel out.
        means = [(float(qp), sum(errors) / len(errors)) for qp, errors in by_qp.items()]
        sides.append(Line(use.contestant, means, **line_style(number)))
    if not sizes:
        return Html("")
    x, y = Axis("share of encodes, %"), Axis("at most so far from the target, %", zero=True)
    sizes_chart = line_chart(sizes, x=x, y=y, title="Distribution of rate errors")
    x, y = Axis("QP of the crf encode that the target comes from"), Axis("mean error, %")
    sides_chart = line_chart(sides, x=x, y=y, title="Mean rate error at each rate")
    return page.columns(
        page.figure(sizes_chart, "Rate errors, sorted: the lower the better."),
        page.figure(sides_chart, "Mean error at each rate, high rates to the left: above zero is too much."),
    )


def _curves(points: Sequence[RatePoint], names: Sequence[str]) -> Html:
    """Everybody's curve, clip by clip."""
    by_clip = {}
    for clip in dict.fromkeys(point.clip for point in points):
        lines = []
        for number, name in enumerate(names):
            own = sorted((p for p in points if p.clip == clip and p.contestant == name), key=lambda p: p.kbps)
            places = [(p.kbps, p.quality["psnr_y"]) for p in own]
            notes = [f"{name}: {p.kbps:.1f} of {p.target_kbps} kbit/s, {p.quality['psnr_y']:.2f} dB" for p in own]
            lines.append(Line(name, places, **line_style(number), notes=notes))
        by_clip[clip] = lines
    return bd_page.curves(by_clip, "psnr_y", "Every point is one encode; hold the pointer over it.")
