"""A chart of BD-rates with a row per contestant: every clip a dot, the mean and its interval over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.report.charts import nice_ticks, signed
from reelrl.report.page import Html, join, tag
from reelrl.report.verdicts import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.report.verdicts import ClipResult, Verdict

_WIDTH, _NAME, _ROW = 760, 190, 30
_SURE = 3  # clips: an interval over fewer says nothing


def forest(summary: Sequence[Verdict], results: Sequence[ClipResult], title: str) -> Html:
    """A row per verdict that has a figure; left of the line is a saving."""
    rows = [(each, _values(each, results)) for each in summary if each.percent]
    flat = [value for _, values in rows for _, value in values] or [0.0]
    ticks = nice_ticks(min([*flat, 0.0]), max([*flat, 0.0]), 9)
    low, high = ticks[0], ticks[-1]

    def across(value: float) -> float:
        return _NAME + (_WIDTH - _NAME - 20) * (value - low) / (high - low)

    bottom = _ROW * len(rows) + 10
    parts = [_vertical(across(tick), bottom, f"{tick:g}", tick == 0) for tick in ticks]
    parts += [_row(each, values, _ROW * number + 20, across) for number, (each, values) in enumerate(rows)]
    return tag("svg", join(parts), viewBox=f"0 0 {_WIDTH} {bottom + 24}", role="img", aria_label=title)


def _values(each: Verdict, results: Sequence[ClipResult]) -> list[tuple[str, float]]:
    name = (each.contestant, each.anchor, each.metric)
    return [
        (result.clip, result.bd.percent)
        for result in results
        if (result.contestant, result.anchor, result.metric) == name and result.bd.percent is not None
    ]


def _row(each: Verdict, values: Sequence[tuple[str, float]], y: float, across: Callable[[float], float]) -> Html:
    mean, low, high = each.percent or (0.0, 0.0, 0.0)
    sure = len(values) >= _SURE
    colour = "one" if sure and high < 0 else "two" if sure and low > 0 else "quiet"
    dots = [
        tag(
            "circle",
            tag("title", f"{clip}: {signed(value, 2)} %"),
            cx=f"{across(value):.1f}",
            cy=y,
            r=3.5,
            style="fill: var(--quiet); fill-opacity: .45",
        )
        for clip, value in values
    ]
    stroke = f"stroke: var(--{colour}); stroke-width: 3"
    bar = tag("line", x1=f"{across(low):.1f}", y1=y, x2=f"{across(high):.1f}", y2=y, style=stroke)
    note = tag("title", f"{each.contestant}: {shown(each)}")
    middle = tag("circle", note, cx=f"{across(mean):.1f}", cy=y, r=6, style=f"fill: var(--{colour})")
    label = tag("text", each.contestant, x=_NAME - 12, y=y + 4.5, text_anchor="end")
    return tag("g", join([label, *dots, bar, middle]))


def _vertical(x: float, bottom: float, label: str, strong: bool) -> Html:
    style = f"stroke: var(--{'soft' if strong else 'line'})"
    words = tag("text", label, x=f"{x:.1f}", y=bottom + 16, text_anchor="middle")
    return join([tag("line", x1=f"{x:.1f}", y1=4, x2=f"{x:.1f}", y2=bottom, style=style), words])
