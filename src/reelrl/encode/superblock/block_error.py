"""Squared errors of a luma plane: per superblock, and weighted. Sums are whole numbers: no order changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

from reelrl.encode.codecs.settings import SUPERBLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Plane


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def block_sse(a: Plane, b: Plane) -> NDArray[np.int64]:
    """Sum of squared differences of each superblock, in raster order."""
    columns = -(-a.shape[1] // SUPERBLOCK)
    sums = np.zeros(-(-a.shape[0] // SUPERBLOCK) * columns, np.int64)
    for row in range(a.shape[0]):
        first = row // SUPERBLOCK * columns
        for block in range(columns):
            left = block * SUPERBLOCK
            line, other = a[row, left : left + SUPERBLOCK], b[row, left : left + SUPERBLOCK]
            total = np.int32(0)  # one row fits, and the processor adds more of these at a time
            for column in range(line.size):
                difference = np.int32(line[column]) - np.int32(other[column])
                total += np.int32(difference * difference)
            sums[first + block] += total
    return sums


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def weighted_sse(a: Plane, b: Plane, weights: Plane) -> tuple[np.int64, np.int64]:
    """Sum of weight times squared difference, and sum of weights."""
    total = weight = np.int64(0)
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            difference = np.int32(a[row, column]) - np.int32(b[row, column])
            total += np.int32(np.int32(weights[row, column]) * np.int32(difference * difference))
            weight += np.int32(weights[row, column])
    return total, weight


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def block_means(values: Plane) -> NDArray[np.float32]:
    """Mean of each superblock over the pixels it holds, in raster order."""
    columns = -(-values.shape[1] // SUPERBLOCK)
    means = np.zeros(-(-values.shape[0] // SUPERBLOCK) * columns, np.float32)
    for block in range(means.size):
        top, left = block // columns * SUPERBLOCK, block % columns * SUPERBLOCK
        bottom, right = min(top + SUPERBLOCK, values.shape[0]), min(left + SUPERBLOCK, values.shape[1])
        total = np.int64(0)
        for row in range(top, bottom):
            for column in range(left, right):
                total += np.int64(values[row, column])
        means[block] = total / ((bottom - top) * (right - left))
    return means
