"""Error of a picture against its source, measured the way SVT-AV1 measures it, for encoders that do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cv2
import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PEAK_DB = 100.0
_WINDOW, _STEP = 8, 4
_C1, _C2 = 26634, 239708  # (64 * 0.01 * 255)**2 and (64 * 0.03 * 255)**2, for sums over 64 pixels


def psnr_from_sse(sse: float, pixels: int) -> float:
    """PSNR in dB of an 8-bit plane; identical planes give 100, never infinity."""
    return min(PEAK_DB, 10 * math.log10(255 * 255 * pixels / sse)) if sse > 0 else PEAK_DB


def plane_sse(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> int:
    """Sum of squared differences, exact."""
    return round(cv2.norm(a, b, cv2.NORM_L2SQR))  # a float, and one that may lie a hair below the whole number


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def plane_ssim(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """Mean SSIM over 8x8 windows every 4 pixels, as SVT-AV1 and libaom compute it."""
    total, windows = 0.0, 0
    for top in range(0, a.shape[0] - _WINDOW + 1, _STEP):
        for left in range(0, a.shape[1] - _WINDOW + 1, _STEP):
            sum_a = sum_b = square_a = square_b = product = 0
            for row in range(top, top + _WINDOW):
                for column in range(left, left + _WINDOW):
                    x, y = np.int64(a[row, column]), np.int64(b[row, column])
                    sum_a += x
                    sum_b += y
                    square_a += x * x
                    square_b += y * y
                    product += x * y
            cross = sum_a * sum_b
            squares = sum_a * sum_a + sum_b * sum_b
            similar = (2.0 * cross + _C1) * (2.0 * 64 * product - 2.0 * cross + _C2)
            total += similar / ((squares + _C1) * (64.0 * (square_a + square_b) - squares + _C2))
            windows += 1
    return total / windows if windows else 1.0
