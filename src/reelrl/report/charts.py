"""Charts as SVG inside a page: crisp at any size, in the page's colours, a tooltip on every point.

    line_chart([Line("libaom", points, colour="one")], x=Axis("kbps", log=True), y=Axis("PSNR-Y, dB"), title="...")
    superblock_map(picture, offsets, title="...")        # a value per superblock over a picture

Colours are the page's: "one" to "four", "quiet". A marker's shape tells lines apart where colours cannot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reelrl.content.clip import SUPERBLOCK_SIZE, superblock_grid
from reelrl.errors import ConfigError
from reelrl.report.page import Html, data_uri, join, tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from reelrl.content.pictures import Picture

Marker = Literal["circle", "square", "none"]

# In units of the picture; a phone shows 480 of them in about 360 pixels, so that 13 is still readable.
_WIDTH, _HEIGHT = 480, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 20, 14, 44
_HIT_RADIUS = 11  # of the unseen circle that carries a point's tooltip


@dataclass(frozen=True)
class Line:
    """Points (x, y), joined in their order unless asked otherwise; `notes` are their tooltips, one each."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str = "one"
    marker: Marker = "circle"
    dashed: bool = False
    notes: Sequence[str] = ()
    joined: bool = True


@dataclass(frozen=True)
class Axis:
    label: str
    log: bool = False
    zero: bool = False
    """Begin at zero."""


@dataclass(frozen=True)
class _Scale:
    """From values to places along one direction of the chart."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def line_chart(
    lines: Sequence[Line], *, x: Axis, y: Axis, title: str, bands: Sequence[tuple[float, float]] = ()
) -> Html:
    """Lines with their legend above; `title` describes the chart to those who cannot see it.

    `bands` (from x, to x) are shaded from top to bottom; they lie within the points.
    """
    if not any(line.points for line in lines):
        raise ConfigError(f"nothing to draw in {title!r}; give a line with points")
    across = _scale([p[0] for line in lines for p in line.points], x, _LEFT, _WIDTH - _RIGHT)
    up = _scale([p[1] for line in lines for p in line.points], y, _HEIGHT - _BOTTOM, _TOP)
    drawn = [
        _axes(across, up, x, y),
        *(_band(across(a), across(b)) for a, b in bands),
        *(_drawn(line, across, up) for line in lines),
    ]
    chart = tag("svg", join(drawn), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=title)
    return join([_legend(lines), chart])


def line_style(number: int) -> dict[str, Any]:
    """How the nth of many lines looks: five colours by two dashes by two markers."""
    colour = ("one", "two", "three", "four", "quiet")[number % 5]
    return {"colour": colour, "dashed": number // 5 % 2 == 1, "marker": "square" if number // 10 % 2 else "circle"}


def steps(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points of a line that holds each value until the next place."""
    corners = [(x, low) for (_, low), (x, _) in itertools.pairwise(places)]
    return [*(point for pair in zip(places, corners, strict=False) for point in pair), *places[-1:]]


def superblock_map(
    picture: Picture,
    values: ArrayLike,
    *,
    title: str,
    label: Callable[[float], str] = lambda value: signed(value, 0),
    note: Callable[[int, int, float], str] = lambda row, column, value: f"row {row}, column {column}: {value:+g}",
    lower_is_better: bool = True,
    limit: float | None = None,
    boxes: Sequence[tuple[int, int, int, int]] = (),
) -> Html:
    """A picture under a heat map: one value per superblock, blue for better, red for worse.

    `limit`, by default the largest value, is full colour. `boxes` (x, y, width, height) mark parts of the picture.
    """
    height, width = picture.shape[:2]
    rows, columns = superblock_grid(width, height)
    blocks = np.asarray(values, np.float64).reshape(-1)
    if blocks.size != rows * columns:
        raise ConfigError(f"{blocks.size} values for {rows * columns} superblocks ({rows} x {columns}); give one each")
    full = limit or max(float(np.abs(blocks).max()), 1e-9)
    parts = [tag("image", href=data_uri(picture), width=width, height=height, opacity=0.8)]
    for (row, column), value in np.ndenumerate(blocks.reshape(rows, columns)):
        better = (value < 0) == lower_is_better
        strength = 0.62 * min(abs(value) / full, 1)
        parts.append(_block(row, column, (width, height), better, strength, label(value), note(row, column, value)))
    parts += [_box(*box) for box in boxes]
    return tag("svg", join(parts), viewBox=f"0 0 {width} {height}", role="img", aria_label=title)


def _box(x: int, y: int, width: int, height: int) -> Html:
    def outline(colour: str, thickness: float) -> Html:
        style = f"fill: none; stroke: {colour}; stroke-width: {thickness}; vector-effect: non-scaling-stroke"
        return tag("rect", x=x + 1, y=y + 1, width=width - 2, height=height - 2, rx=2, style=style)

    return join([outline("#000", 5), outline("#fff", 2.5)])


def signed(value: float, digits: int) -> str:
    """A number with its sign, in typographic minus; what rounds to nothing has none."""
    rounded = f"{abs(value):.{digits}f}"
    if float(rounded) == 0:
        return rounded
    return ("+" if value > 0 else "\N{MINUS SIGN}") + rounded


def minus(number: str) -> str:
    """A number as it was written, in typographic minus."""
    return number.replace("-", "\N{MINUS SIGN}", 1)


def nice_ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten) that cover low to high."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most - 1)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(step * number, 10) for number in range(first, max(last, first + 1) + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times powers of ten that cover low to high, both above zero."""
    if low <= 0:
        raise ConfigError(f"{low:g} has no place on a logarithmic axis; use a linear one")
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    every = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    first = max(tick for tick in every if tick <= low * (1 + 1e-9))
    last = min(tick for tick in (*every, 10 * every[-1]) if tick >= high * (1 - 1e-9) and tick > first)
    return tuple(tick for tick in every if first <= tick <= last)


def _scale(values: Sequence[float], axis: Axis, start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    ticks = log_ticks(low, high) if axis.log else nice_ticks(0.0 if axis.zero else low, high)
    return _Scale(min(ticks[0], low), max(ticks[-1], high), start, end, axis.log, ticks)


def _axes(across: _Scale, up: _Scale, x: Axis, y: Axis) -> Html:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for tick in up.ticks:
        place = up(tick)
        parts.append(_segment(_LEFT, place, _WIDTH - _RIGHT, place))
        parts.append(_words(f"{tick:g}", _LEFT - 7, place + 4.5, "end"))
    for tick in across.ticks:
        parts.append(_segment(across(tick), bottom, across(tick), bottom + 4))
        parts.append(_words(f"{tick:g}", across(tick), bottom + 18, "middle"))
    parts.append(_words(x.label, (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, "middle"))
    middle = (_TOP + bottom) / 2
    parts.append(tag("text", y.label, text_anchor="middle", transform=f"translate(13 {middle:g}) rotate(-90)"))
    return tag("g", join(parts))


def _segment(x1: float, y1: float, x2: float, y2: float) -> Html:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", style="stroke: var(--line)")


def _words(content: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _drawn(line: Line, across: _Scale, up: _Scale) -> Html:
    places = [(across(x), up(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = f"fill: none; stroke: var(--{line.colour}); stroke-width: 2.25; stroke-linejoin: round"
    dashes = "5 4" if line.dashed else None
    parts = [tag("polyline", points=path, style=style, stroke_dasharray=dashes)] if line.joined else []
    parts += [_mark(line, x, y) for x, y in places]
    for (x, y), note in zip(places, line.notes, strict=False):
        hit = tag("circle", tag("title", note), cx=f"{x:.1f}", cy=f"{y:.1f}", r=_HIT_RADIUS, fill_opacity=0)
        parts.append(hit)
    return tag("g", join(parts))


def _band(start: float, end: float) -> Html:
    # A stall of a blink is still one: never thinner than can be seen.
    width = max(end - start, 1.5)
    style, height = "fill: var(--two); fill-opacity: .28", _HEIGHT - _TOP - _BOTTOM
    return tag("rect", x=f"{start:.1f}", y=_TOP, width=f"{width:.1f}", height=height, style=style)


def _mark(line: Line, x: float, y: float) -> Html:
    style = f"fill: var(--{line.colour}); stroke: var(--ground); stroke-width: 1.5"
    if line.marker == "circle":
        return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=5, style=style)
    if line.marker == "square":
        return tag("rect", x=f"{x - 4.5:.1f}", y=f"{y - 4.5:.1f}", width=9, height=9, style=style)
    return Html("")


def _legend(lines: Sequence[Line]) -> Html:
    def sample(line: Line) -> Html:
        style = f"stroke: var(--{line.colour}); stroke-width: 2.25"
        stroke = tag("line", x1=1, y1=7, x2=29, y2=7, style=style, stroke_dasharray="5 4" if line.dashed else None)
        drawn = [stroke] if line.joined else []
        return tag("svg", join([*drawn, _mark(line, 15, 7)]), viewBox="0 0 30 14", aria_hidden="true")

    return tag("ul", join(tag("li", join([sample(line), line.name])) for line in lines), class_="legend")


def _block(row: int, column: int, size: tuple[int, int], better: bool, strength: float, label: str, note: str) -> Html:
    x, y = column * SUPERBLOCK_SIZE, row * SUPERBLOCK_SIZE
    width, height = min(SUPERBLOCK_SIZE, size[0] - x), min(SUPERBLOCK_SIZE, size[1] - y)
    fill = f"fill: var(--{'better' if better else 'worse'}); stroke: #fff8; vector-effect: non-scaling-stroke"
    rect = tag("rect", x=x, y=y, width=width, height=height, fill_opacity=f"{strength:.2f}", style=fill)
    unit = size[0] / _WIDTH  # pixels of the picture in one of a chart, as both are shown equally wide
    font = min(18 * unit, 0.34 * width, 0.6 * height)
    if font < 8 * unit:
        return tag("g", join([tag("title", note), rect]))  # too small to read; the tooltip stays
    ink = f"fill: #fff; stroke: #0009; stroke-width: {0.23 * font:.2g}; paint-order: stroke; font-weight: 600"
    style = f"{ink}; font-size: {font:.3g}px"
    words = tag(
        "text", label, x=x + width / 2, y=f"{y + height / 2 + 0.36 * font:.1f}", text_anchor="middle", style=style
    )
    return tag("g", join([tag("title", note), rect, words]))
