"""Curves through points, to integrate: piecewise cubics after Fritsch and Butland (PCHIP) and after Akima.

Both pass through every point and bend no further than their neighbours ask for; PCHIP never leaves the range of two
neighbours. Their laws are those of SciPy's, which would bring 140 MB with it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Method = Literal["pchip", "akima"]
Floats = npt.NDArray[np.float64]


def integral(x: Floats, y: Floats, low: float, high: float, method: Method) -> float:
    """The area under the curve through the points, x ascending, from `low` to `high` within them."""
    slopes = (_akima if method == "akima" else _pchip)(x, y)
    steps = np.diff(x)
    total = 0.0
    for left, step, y0, y1, d0, d1 in zip(x[:-1], steps, y[:-1], y[1:], slopes[:-1], slopes[1:], strict=True):
        begin, end = max(low, left) - left, min(high, left + step) - left
        if end <= begin:
            continue
        # A cubic in t, the distance from the interval's left end: its value and slope hold at both ends.
        chord = (y1 - y0) / step
        square, cube = (3 * chord - 2 * d0 - d1) / step, (d0 + d1 - 2 * chord) / step**2
        primitive = np.array([cube / 4, square / 3, d0 / 2, y0, 0.0])
        total += float(np.polyval(primitive, end) - np.polyval(primitive, begin))
    return total


def _pchip(x: Floats, y: Floats) -> Floats:
    """Slopes at the points: the weighted harmonic mean of both chords, 0 where the curve turns."""
    steps = np.diff(x)
    chords = np.diff(y) / steps
    if len(x) == 2:
        return np.array([chords[0], chords[0]])
    slopes = np.zeros(len(x))
    before, after = chords[:-1], chords[1:]
    goes_on = before * after > 0
    first, second = 2 * steps[1:] + steps[:-1], steps[1:] + 2 * steps[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (first + second) / (first / before + second / after)
    slopes[1:-1] = np.where(goes_on, inner, 0.0)
    slopes[0] = _end_slope(steps[0], steps[1], chords[0], chords[1])
    slopes[-1] = _end_slope(steps[-1], steps[-2], chords[-1], chords[-2])
    return slopes


def _end_slope(step: float, next_step: float, chord: float, next_chord: float) -> float:
    """The parabola's through three points, held back where it would overshoot."""
    slope = ((2 * step + next_step) * chord - step * next_chord) / (step + next_step)
    if np.sign(slope) != np.sign(chord):
        return 0.0
    if np.sign(chord) != np.sign(next_chord) and abs(slope) > 3 * abs(chord):
        return 3.0 * chord
    return float(slope)


def _akima(x: Floats, y: Floats) -> Floats:
    """Slopes at the points: chords weighted by how little those beyond them turn."""
    chords = np.diff(y) / np.diff(x)
    if len(x) == 2:
        return np.array([chords[0], chords[0]])
    # Two chords more at each end, going on as a parabola would.
    first, last = 2 * chords[0] - chords[1], 2 * chords[-1] - chords[-2]
    longer = np.array([2 * first - chords[0], first, *chords, last, 2 * last - chords[-1]])
    turns = np.abs(np.diff(longer))
    before, after = turns[:-2], turns[2:]
    weight = before + after
    slopes: Floats = 0.5 * (longer[3:] + longer[:-3])
    clear = weight > 1e-9 * weight.max(initial=-np.inf)
    slopes[clear] = (after * longer[1:-2] + before * longer[2:-1])[clear] / weight[clear]
    return slopes
