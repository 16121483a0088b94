"""The natural cubic spline through some points, as weights of their values: linear, so that beliefs pass through."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def spline_weights(knots: tuple[float, ...], at: float) -> NDArray[np.float64]:
    """Weights of the values at `knots`, in rising order, in the spline's value at `at`; it is straight outside them."""
    x = np.array(knots, np.float64)
    inside = min(max(at, x[0]), x[-1])
    if inside == at:
        return _inside(x, at)
    inner = inside + (0.01 if at < inside else -0.01)
    edge = _inside(x, inside)
    straight: NDArray[np.float64] = edge + (edge - _inside(x, inner)) / (inside - inner) * (at - inside)
    return straight


def _inside(x: NDArray[np.float64], at: float) -> NDArray[np.float64]:
    gaps, count = np.diff(x), len(x)
    # Second derivatives at the knots are linear in the values: they solve a tridiagonal system, zero at both ends.
    system, right = np.eye(count), np.zeros((count, count))
    for k in range(1, count - 1):
        system[k, k - 1 : k + 2] = gaps[k - 1], 2 * (gaps[k - 1] + gaps[k]), gaps[k]
        right[k, k - 1 : k + 2] = 6 / gaps[k - 1], -6 / gaps[k - 1] - 6 / gaps[k], 6 / gaps[k]
    curvature = np.linalg.solve(system, right)
    k = int(np.clip(np.searchsorted(x, at) - 1, 0, count - 2))
    a, b, values = (x[k + 1] - at) / gaps[k], (at - x[k]) / gaps[k], np.eye(count)
    bend = ((a**3 - a) * curvature[k] + (b**3 - b) * curvature[k + 1]) * gaps[k] ** 2 / 6
    weights: NDArray[np.float64] = a * values[k] + b * values[k + 1] + bend
    return weights
