"""Bjontegaard delta rate: how many more bits a codec needs for the same quality, over a range of qualities.

Rates as logarithms, PCHIP between the points (Akima on request; a cubic misleads), over the qualities that both curves
reach: equal to FAU's `bjontegaard` package. A figure that cannot be trusted says so in `doubts`; one that cannot be had
is None, with the reason there too: a mean over clips has to say which ones it leaves out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl.errors import ConfigError
from reelrl.report.interpolation import integral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.report.interpolation import Method

LEAST_POINTS = 4
LEAST_OVERLAP = 0.75
"""Share of the qualities of both curves that both reach; below it a figure is in doubt."""


class Point(NamedTuple):
    """One encode: its rate in kbit/s, and its quality in whatever unit, better upwards."""

    kbps: float
    quality: float


@dataclass(frozen=True)
class BdRate:
    """percent  more bits at equal quality; below zero is a saving; None where the curves give none
    overlap     share of the range of qualities that both curves reach, 0 to 1
    doubts      why the figure is missing, or not to be trusted
    """

    percent: float | None
    overlap: float
    doubts: tuple[str, ...] = ()


def bd_rate(anchor: Sequence[Point], test: Sequence[Point], method: Method = "pchip") -> BdRate:
    """Bits that `test` needs more than `anchor` for the same quality. Points may come in any order."""
    if method not in ("pchip", "akima"):
        raise ConfigError(f"BD-rate method {method!r}; use pchip or akima")
    curves = {"anchor": sorted(_checked(anchor)), "test": sorted(_checked(test))}
    faults = [f"{which} curve: {fault}" for which, points in curves.items() if (fault := _fault(points))]
    overlap = _overlap(curves["anchor"], curves["test"])
    if faults or not overlap:
        return BdRate(None, overlap, tuple(faults) or ("the curves share no quality",))
    doubts = [
        f"{which} curve has {len(points)} points, fewer than {LEAST_POINTS}"
        for which, points in curves.items()
        if len(points) < LEAST_POINTS
    ]
    if overlap < LEAST_OVERLAP:
        doubts.append(f"the curves share {overlap:.0%} of their range of quality")
    return BdRate(_percent(curves["anchor"], curves["test"], method), overlap, tuple(doubts))


def _checked(points: Sequence[Point]) -> list[Point]:
    for kbps, quality in points:
        if not (math.isfinite(kbps) and kbps > 0 and math.isfinite(quality)):
            raise ConfigError(f"a point of {kbps:g} kbit/s and quality {quality:g}; both are finite, the rate above 0")
    return [Point(*point) for point in points]


def _fault(points: list[Point]) -> str:
    """Why a curve, sorted by rate, is none."""
    if len(points) < 2:
        return f"{len(points)} point; it takes two at least"
    for low, high in itertools.pairwise(points):
        if not (high.kbps > low.kbps and high.quality > low.quality):
            return f"quality {low.quality:.4g} at {low.kbps:.4g} kbit/s, {high.quality:.4g} at {high.kbps:.4g}"
    return ""


def _overlap(anchor: list[Point], test: list[Point]) -> float:
    if not (anchor and test):
        return 0.0
    (low, high), (low_too, high_too) = (
        (min(p.quality for p in points), max(p.quality for p in points)) for points in (anchor, test)
    )
    whole = max(high, high_too) - min(low, low_too)
    return max(min(high, high_too) - max(low, low_too), 0.0) / whole if whole else 0.0


def _percent(anchor: list[Point], test: list[Point], method: Method) -> float:
    low, high = max(anchor[0].quality, test[0].quality), min(anchor[-1].quality, test[-1].quality)
    before, after = (
        integral(np.array([p.quality for p in points]), np.log([p.kbps for p in points]), low, high, method)
        for points in (anchor, test)
    )
    return 100.0 * math.expm1((after - before) / (high - low))
