"""One page about trained autoencoders: quality against bytes, where the classics win, what the embedding knows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, signed
from reelrl.report.page import Html, join, tag
from reelrl.see.measures.probe import compare
from reelrl.see.measures.rate import ALONE, DIFFERENCES, TOGETHER, best_within
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.see.evaluate import ModelReport
    from reelrl.see.measures.rate import BytesPoint

BUDGETS = (100, 250, 500, 1000, 2000, 4495)
CODECS = (ALONE, TOGETHER, DIFFERENCES, "JPEG", "WebP", "AVIF")
_STYLES: dict[str, dict[str, Any]] = {
    ALONE: {"colour": "one"},
    TOGETHER: {"colour": "one", "marker": "square"},
    DIFFERENCES: {"colour": "one", "marker": "none", "dashed": True},
    "JPEG": {"colour": "quiet"},
    "WebP": {"colour": "quiet", "marker": "square"},
    "AVIF": {"colour": "two"},
    "lossless WebP": {"colour": "two", "marker": "square", "dashed": True},
}
_RATE = (
    "Bytes are those of the files, headers counted, on frames of episodes that the model never saw. A receiver of "
    "embeddings also needs the model, and the model knows this one game; the image codecs know nothing and need "
    "nothing. Differences to the frame before are a labelled extra: the image codecs here do not have it. Lossless is "
    "drawn at 60 dB or the best there is, where its picture is exact to the last bit."
)
_PROBE = (
    "A ridge regression from each representation to where things are, read from the console's memory. R2 on unseen "
    "episodes: 1 is perfect, 0 is the mean, below 0 is worse than that. The strength of the ridge is chosen on other "
    "episodes again, from the same list for all. PCA is fitted on the same frames as the ridge, at 48x48 pixels, and "
    "has as many components as the embedding has numbers."
)


def write_page(path: Path, reports: Sequence[ModelReport], facts: dict[str, Any]) -> None:
    body = [_summary(reports)]
    body += [_rate(report) for report in reports]
    if any(report.probe for report in reports):
        body.append(_probes([report for report in reports if report.probe]))
    shown_facts = [(str(key), str(value)) for key, value in facts.items() if key != "command"]
    body.append(page.section("How", _RATE, page.facts(shown_facts), page.code(str(facts.get("command", "")))))
    headline, lead = _headline(reports)
    write_atomic(path, page.page(headline, lead, body, kicker="reel evaluate autoencoder"))


def _headline(reports: Sequence[ModelReport]) -> tuple[str, str]:
    """How good pictures from embeddings are, and what the embedding knows more than the first it is compared with."""
    points = [next(p for p in report.rate if p.codec == "embedding, float32") for report in reports]
    psnrs_db = [value for point in points if (value := point.figures["psnr_db"]) is not None]
    scope = f"{len(reports)} models" if len(reports) > 1 else f"{reports[0].name} on {reports[0].source}"
    lead = f"{scope}: quality against true bytes on episodes never seen, beside image codecs."
    known = compare([report.probe for report in reports if report.probe])
    if known:
        (low, high), one = (signed(value, 3) for value in known[0].difference[1:]), known[0]
        what = f"R2 {signed(one.difference.mean, 3)}, 95 % interval over episodes {low} to {high}"
        lead += f" A linear probe finds places by {one.ours} beside {one.theirs}: {what}."
    mean = f"{sum(psnrs_db) / len(psnrs_db):.1f} dB" if psnrs_db else "No PSNR"
    return f"{mean} from embeddings, on unseen episodes", lead


def markdown(reports: Sequence[ModelReport]) -> str:
    """Tables for a terminal or a document."""
    parts = [
        f"### {report.source}: PSNR in dB within a budget of bytes\n\n{_lines(*_budget(report))}" for report in reports
    ]
    probed = [report for report in reports if report.probe]
    if probed:
        parts.append(f"### R2 of a linear probe on unseen episodes\n\n{_lines(*_probe_table(probed))}")
        parts.append(_lines(*_comparison_table(probed)))
    return "\n\n".join(parts) + "\n"


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def _summary(reports: Sequence[ModelReport]) -> Html:
    rows = []
    for report in reports:
        whole = next(point for point in report.rate if point.codec == "embedding, float32")
        lossless = next(p for p in report.rate if p.codec == "lossless WebP" and p.setting == "own size")
        rows.append(
            [
                report.source,
                report.name,
                *(_shown(whole.figures[key], digits) for key, digits in _KEYS),
                f"{lossless.bytes_per_frame:.0f}",
                f"{report.weights_bytes / 1000:.0f}",
            ]
        )
    heads = ["source", "model", "PSNR, dB", "foreground, dB", "SSIM", "lossless WebP, B", "model, kB"]
    lead = "Pictures from embeddings as they are, on unseen episodes; what a lossless file of the frame takes instead."
    return page.section("Held-out frames", lead, page.table(heads, rows))


_KEYS = (("psnr_db", 2), ("foreground_psnr_db", 2), ("ssim", 4))


def _rate(report: ModelReport) -> Html:
    charts = [
        page.figure(rate_chart(report, "psnr_db", "PSNR, dB"), "All pixels."),
        page.figure(rate_chart(report, "foreground_psnr_db", "foreground PSNR, dB"), "Pixels before the background."),
    ]
    heads, rows = _budget(report)
    every = [
        [point.codec, point.setting, f"{point.bytes_per_frame:.0f}", *(_shown(point.figures[k], d) for k, d in _KEYS)]
        for point in report.rate
    ]
    all_points = page.table(["codec", "setting", "bytes a frame", "PSNR", "foreground", "SSIM"], every)
    return page.section(
        f"{report.source}: quality and bytes",
        "Best PSNR in dB of what fits into so many bytes a frame; - where nothing does.",
        page.columns(*charts),
        page.table(heads, rows),
        page.details("Every point", all_points),
    )


def rate_chart(report: ModelReport, figure: str, label: str) -> Html:
    """Curves of one model and of the image codecs on the same frames."""
    lines = []
    for codec, style in _STYLES.items():
        of_codec = sorted((point for point in report.rate if point.codec == codec), key=lambda p: p.bytes_per_frame)
        points = [(p.bytes_per_frame, min(v, 60.0)) for p in of_codec if (v := p.figures[figure]) is not None]
        notes = [f"{codec}, {p.setting}: {p.bytes_per_frame:.0f} bytes" for p in of_codec]
        lines.append(Line(codec, points, notes=notes, **style))
    x, y = Axis("bytes a frame", log=True), Axis(label)
    return line_chart(
        [line for line in lines if line.points], x=x, y=y, title=f"{report.source}: {label} against bytes"
    )


def _budget(report: ModelReport) -> tuple[list[str], list[list[str]]]:
    rows = []
    for codec in (*CODECS, "lossless WebP"):
        best = [best_within(report.rate, codec, budget) for budget in BUDGETS]
        rows.append([codec, *(_psnr(point) for point in best)])
    return ["codec", *(f"{budget} B" for budget in BUDGETS)], rows


def _psnr(point: BytesPoint | None) -> str:
    if point is None:
        return "-"
    return "exact" if point.codec == "lossless WebP" else _shown(point.figures["psnr_db"], 1)


def _probes(reports: Sequence[ModelReport]) -> Html:
    heads, rows = _probe_table(reports)
    against = page.table(*_comparison_table(reports))
    return page.section("What the embedding knows", _PROBE, _bars(reports), page.table(heads, rows), against)


def _probe_table(reports: Sequence[ModelReport]) -> tuple[list[str], list[list[str]]]:
    names = list(dict.fromkeys(result.representation for report in reports for result in report.probe))
    sizes = {result.representation: result.numbers for report in reports for result in report.probe}
    rows = []
    for report in reports:
        r2 = {(r.place, r.representation): r.r2 for r in report.probe}
        for place in dict.fromkeys(r.place for r in report.probe):
            cells = [_shown(r2.get((place, name)), 3) for name in names]
            rows.append([f"{report.source.removeprefix('ale:')}: {place}", *cells])
    mean = [sum(column) / len(column) for column in _columns(reports, names)]
    rows.append([f"mean of {len(rows)}", *(_shown(value, 3) for value in mean)])
    return ["place", *(f"{name} ({sizes[name]})" for name in names)], rows


def _columns(reports: Sequence[ModelReport], names: Sequence[str]) -> list[list[float]]:
    every = [result for report in reports for result in report.probe]
    return [[result.r2 for result in every if result.representation == name] for name in names]


def _comparison_table(reports: Sequence[ModelReport]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            f"{one.ours} - {one.theirs}",
            f"{one.difference.mean:+.3f} [{one.difference.low:+.3f}, {one.difference.high:+.3f}]",
            f"{one.won} of {one.places}",
        ]
        for one in compare([report.probe for report in reports])
    ]
    return ["R2 against", "mean difference, 95 % over episodes", "places where higher"], rows


_WIDTH, _LEFT, _ROW = 760, 210, 34


def _bars(reports: Sequence[ModelReport]) -> Html:
    """A row per place; a mark per representation between R2 of 1 and a round number below all of them, or 0."""
    rows = [(report, place) for report in reports for place in dict.fromkeys(r.place for r in report.probe)]
    least = min(result.r2 for report in reports for result in report.probe)
    low = max(0.0, math.floor(10 * least) / 10)
    looks = {"embedding": ("one", 7), "PCA": ("two", 5), "39x39 pixels": ("quiet", 5), "27x27 pixels": ("quiet", 3.5)}

    def across(r2: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 20) * (max(r2, low) - low) / (1 - low + 1e-9)

    bottom = _ROW * len(rows) + 12
    parts = []
    for tick in (low + (1 - low) * quarter / 4 for quarter in range(5)):
        x = f"{across(tick):.1f}"
        parts.append(tag("line", x1=x, y1=4, x2=x, y2=bottom, style="stroke: var(--line)"))
        parts.append(tag("text", f"{tick:.3g}", x=x, y=bottom + 16, text_anchor="middle"))
    for number, (report, place) in enumerate(rows):
        y = _ROW * number + 22
        label = f"{report.source.removeprefix('ale:')}: {place}"
        parts.append(tag("text", label, x=_LEFT - 14, y=y + 4.5, text_anchor="end"))
        for result in report.probe:
            if result.place == place and result.representation in looks:
                colour, radius = looks[result.representation]
                note = tag("title", f"{label}, {result.representation}: R2 {result.r2:.3f}")
                parts.append(
                    tag("circle", note, cx=f"{across(result.r2):.1f}", cy=y, r=radius, style=f"fill: var(--{colour})")
                )
    chart = tag("svg", join(parts), viewBox=f"0 0 {_WIDTH} {bottom + 24}", role="img", aria_label="R2 of linear probes")
    return page.figure(
        chart, "R2: large dot embedding, orange PCA, grey small pictures (larger dot 39x39). Below 0 stands at 0."
    )


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
