"""SSIM as SVT-AV1 computes it, to the last bit, so that backends can be compared.

For the definition of the paper, with its Gaussian window, see `reelrl.content.quality.ssim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.frame import Plane

_WINDOW, _STEP = 8, 4
# (64 * 0.01 * peak)**2 and (64 * 0.03 * peak)**2, for sums over 64 pixels, by bytes of a sample: 8 and 10 bits.
_CONSTANTS = {1: (26634, 239708), 2: (428658, 3857925)}


def picture_ssim(a: Sequence[Plane], b: Sequence[Plane]) -> tuple[float, float, float]:
    """SSIM of Y, Cb and Cr planes. Like the encoder, it fills the last 8x8 pixels by repeating the picture's edge."""
    constants = _CONSTANTS[a[0].itemsize]
    y, cb, cr = (block_ssim(_filled(a[i], size), _filled(b[i], size), *constants) for i, size in enumerate((8, 4, 4)))
    return y, cb, cr


def _filled(plane: Plane, size: int) -> Plane:
    rows, columns = (-side % size for side in plane.shape)
    return np.pad(plane, ((0, rows), (0, columns)), mode="edge") if rows or columns else plane


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def block_ssim(a: Plane, b: Plane, c1: int = 26634, c2: int = 239708) -> float:
    """Mean similarity of two planes over 8x8 windows every 4 pixels; 1 for equal ones."""
    total, windows = 0.0, 0
    for top in range(0, a.shape[0] - _WINDOW + 1, _STEP):
        for left in range(0, a.shape[1] - _WINDOW + 1, _STEP):
            sum_a = sum_b = square_a = square_b = product = 0
            for row in range(top, top + _WINDOW):
                for column in range(left, left + _WINDOW):
                    x, y = int(a[row, column]), int(b[row, column])
                    sum_a += x
                    sum_b += y
                    square_a += x * x
                    square_b += y * y
                    product += x * y
            cross = sum_a * sum_b
            squares = sum_a * sum_a + sum_b * sum_b
            similar = (2.0 * cross + c1) * (2.0 * 64 * product - 2.0 * cross + c2)
            total += similar / ((squares + c1) * (64.0 * (square_a + square_b) - squares + c2))
            windows += 1
    return total / windows if windows else 1.0
