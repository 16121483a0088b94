"""A forest plot: a row per contestant with its mean, the interval, and what lies behind them as dots.

forest([Row("ppo against mpc", interval, "+0.04 [+0.03, +0.05]")], title="...", lower_is_better=False)
bd_forest(summary, results, title)         # BD-rates, every clip a dot
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.report.charts import nice_ticks, signed
from reelrl.report.intervals import Interval
from reelrl.report.page import Html, join, tag
from reelrl.report.verdicts import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.report.verdicts import ClipResult, Verdict

# As wide as a chart, so that its words can be read on a phone: names stand above their rows, not beside them.
_WIDTH, _EDGE, _ROW = 480, 20, 44
SURE = 3  # clips: an interval over fewer says nothing


@dataclass(frozen=True)
class Row:
    """figure  the mean and its interval in words, to the right of the name
    dots       (note, value) of what the mean is of
    sure       whether the interval means anything; without that the row has no colour
    colour     of a row that is no difference
    """

    name: str
    interval: Interval
    figure: str
    dots: Sequence[tuple[str, float]] = ()
    sure: bool = True
    colour: str = "one"


def forest(rows: Sequence[Row], *, title: str, lower_is_better: bool | None = None) -> Html:
    """Rows of differences around a line at zero, coloured by which side they are on.

    Without `lower_is_better` the values are no differences: no line, no side.
    """
    flat = [value for row in rows for value in (*row.interval, *(dot for _, dot in row.dots)) if not math.isnan(value)]
    flat += [0.0] if lower_is_better is not None or not flat else []
    ticks = nice_ticks(min(flat), max(flat), 7)
    low, high = ticks[0], ticks[-1]

    def across(value: float) -> float:
        return _EDGE + (_WIDTH - 2 * _EDGE) * (value - low) / (high - low)

    bottom = _ROW * len(rows)
    strong = 0.0 if lower_is_better is not None else None
    parts = [_words(f"{tick:g}", across(tick), bottom + 16, "middle") for tick in ticks]
    for number, row in enumerate(rows):
        # Grid lines only beside the bars, so that none crosses a name or a figure.
        parts += [_vertical(across(tick), _ROW * number + 25, tick == strong) for tick in ticks]
        parts.append(_row(row, _ROW * number, across, lower_is_better))
    view = f"0 0 {_WIDTH} {bottom + 24}"
    return tag("svg", join(parts), viewBox=view, role="img", aria_label=title, class_="forest")


def bd_forest(summary: Sequence[Verdict], results: Sequence[ClipResult], title: str) -> Html:
    """A row per verdict that has a figure; left of the line is a saving."""
    rows = []
    for each in summary:
        if each.percent:
            dots = clip_values(each, results)
            rows.append(Row(each.contestant, each.percent, shown(each), dots, sure=len(dots) >= SURE))
    return forest(rows, title=title, lower_is_better=True)


def clip_values(each: Verdict, results: Sequence[ClipResult]) -> list[tuple[str, float]]:
    """(note, percent) of every clip that the verdict is over."""
    name = (each.contestant, each.anchor, each.metric)
    return [
        (f"{result.clip}: {signed(result.bd.percent, 2)} %", result.bd.percent)
        for result in results
        if (result.contestant, result.anchor, result.metric) == name and result.bd.percent is not None
    ]


def _row(row: Row, top: float, across: Callable[[float], float], lower_is_better: bool | None) -> Html:
    mean, low, high = row.interval
    y = top + 33
    dots = [
        tag(
            "circle",
            tag("title", note),
            cx=f"{across(value):.1f}",
            cy=y,
            r=3.5,
            style="fill: var(--quiet); fill-opacity: .45",
        )
        for note, value in row.dots
    ]
    colour = _colour(row, lower_is_better)
    stroke = f"stroke: var(--{colour}); stroke-width: 3"
    ends = (low, high) if row.interval.is_known else (mean, mean)
    bar = tag("line", x1=f"{across(ends[0]):.1f}", y1=y, x2=f"{across(ends[1]):.1f}", y2=y, style=stroke)
    note = tag("title", f"{row.name}: {row.figure}")
    middle = tag("circle", note, cx=f"{across(mean):.1f}", cy=y, r=6, style=f"fill: var(--{colour})")
    name = tag("text", row.name, x=0, y=top + 18, class_="name")
    return tag("g", join([name, _words(row.figure, _WIDTH, top + 18, "end"), *dots, bar, middle]))


def _colour(row: Row, lower_is_better: bool | None) -> str:
    if lower_is_better is None:
        return row.colour
    below, above = row.interval.high < 0, row.interval.low > 0
    if not row.sure or not (below or above):
        return "quiet"
    return "one" if below == lower_is_better else "two"


def _vertical(x: float, top: float, strong: bool) -> Html:
    style = f"stroke: var(--{'soft' if strong else 'line'})"
    return tag("line", x1=f"{x:.1f}", y1=top, x2=f"{x:.1f}", y2=top + 17, style=style)


def _words(content: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
