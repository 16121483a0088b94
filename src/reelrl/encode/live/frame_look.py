"""What a frame shows of the bits it will take, before it is coded: energies of its blocks, in a tenth of a millisecond.

frame at half resolution ──► each 16x16 block: how far pixels are from their neighbours, and how far from the frame
and the one before            before after motion ──► two histograms over octaves, and a few shares

Nothing of a later frame is looked at. The search for motion begins at the motion of the frame before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Frame

BLOCK = 16  # pixels
OCTAVES = 10
"""Bins of a histogram: block energies below 1/8 level, then twice as much each."""

_HALF = BLOCK // 2
_PIXELS = _HALF * _HALF  # of a block at half resolution
_FIRST_OCTAVE = -3.0
_NEW = 0.7  # of its own energy that a block has left after motion, to count as new
_REACH = 24  # pixels at half resolution: twice that in the picture


class FrameLook(NamedTuple):
    """intra   share of the picture by octave of its own energy: mean |difference| to the pixel beside and below
    inter   the same for the lesser of that and the energy of what the frame before leaves after motion
    energy  (intra, inter): means over the picture, in levels of 8 bits
    cut     share of the picture that the frame before says nothing about; 1 for a stream's first frame
    still   share of the picture that has not changed at all
    new     as intra, of the blocks alone that the frame before hardly says anything about
    """

    intra: NDArray[np.float32]
    inter: NDArray[np.float32]
    energy: tuple[float, float]
    cut: float
    still: float
    new: NDArray[np.float32] = np.zeros(OCTAVES, np.float32)

    @property
    def is_cut(self) -> bool:
        """Most of it is new: to be coded afresh."""
        return self.cut > 0.6


class FrameLooker:
    """Looks at frame after frame of one stream."""

    def __init__(self, width: int, height: int) -> None:
        rows, columns = -(-height // BLOCK), -(-width // BLOCK)
        self._half, self._before = (np.zeros((rows * _HALF, columns * _HALF), np.uint8) for _ in range(2))
        self._motion = np.zeros((rows, columns, 2), np.int32)
        self._started = False

    def look(self, frame: Frame) -> FrameLook:
        """What the next frame shows."""
        _shrink(frame.at_depth(8).y, self._half)
        intra, inter, new = np.zeros((3, OCTAVES), np.float32)
        found = _look(self._half, self._before, self._started, self._motion, intra, inter, new)
        self._started = True
        self._half, self._before = self._before, self._half
        return FrameLook(intra, inter, (found[0], found[1]), found[2], found[3], new)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _shrink(luma: Any, half: Any) -> None:
    """Half the size by means of four; edges are repeated into whole blocks."""
    height, width = luma.shape[0] // 2, luma.shape[1] // 2
    for row in range(height):
        above, below = luma[2 * row], luma[2 * row + 1]
        for column in range(width):
            total = (
                np.int32(above[2 * column])
                + np.int32(above[2 * column + 1])
                + np.int32(below[2 * column])
                + np.int32(below[2 * column + 1])
            )
            half[row, column] = (total + 2) >> 2
        for column in range(width, half.shape[1]):
            half[row, column] = half[row, width - 1]
    for row in range(height, half.shape[0]):
        half[row, :] = half[height - 1, :]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _look(half: Any, before: Any, started: bool, motion: Any, intra: Any, inter: Any, fresh: Any) -> Any:
    """Fill the histograms and the motion of every block; returns the means and shares of `FrameLook`."""
    share = np.float32(1 / (motion.shape[0] * motion.shape[1]))
    intra_sum: Any = 0.0
    inter_sum: Any = 0.0
    new: Any = 0.0
    still: Any = 0.0
    for row in range(motion.shape[0]):
        for column in range(motion.shape[1]):
            own = _texture(half, row * _HALF, column * _HALF) / _PIXELS
            left_over = own
            if started:
                down, across, least, unmoved = _search(half, before, motion, row, column)
                motion[row, column, 0], motion[row, column, 1] = down, across
                left_over = least / _PIXELS
                still += share if unmoved == 0 else 0.0
            new += share if left_over >= own and (own > 0.5 or not started) else 0.0
            if left_over >= _NEW * own and own > 0.5:
                fresh[_octave(own)] += share
            left_over = min(left_over, own)
            intra_sum += own * share
            inter_sum += left_over * share
            intra[_octave(own)] += share
            inter[_octave(left_over)] += share
    return intra_sum, inter_sum, new, still


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _octave(energy: float) -> int:
    if energy <= 0.125:
        return 0
    return min(int(np.log2(energy) - _FIRST_OCTAVE) + 1, OCTAVES - 1)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _texture(half: Any, top: int, left: int) -> float:
    """Sum of |difference| to the pixel beside and to the one below, halved."""
    total = np.int32(0)
    for row in range(top, top + _HALF):
        line, other = half[row, left : left + _HALF], half[min(row + 1, half.shape[0] - 1), left : left + _HALF]
        for column in range(_HALF):
            total += _distance(line[column], other[column])
        for column in range(1, _HALF):
            total += _distance(line[column], line[column - 1])
    return total / 2


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _distance(one: Any, other: Any) -> Any:
    return np.int32(abs(np.int32(one) - np.int32(other)))


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _search(half: Any, before: Any, motion: Any, row: int, column: int) -> tuple[int, int, int, int]:
    """(motion down and across, |difference| then, |difference| without motion) of a block.

    The best of its neighbours' motion and its own of last time, then downhill.
    """
    best_down = best_across = 0
    best = unmoved = _at(half, before, row, column, 0, 0)
    if best <= _PIXELS // 2:
        return 0, 0, best, unmoved
    for which in range(3):
        if which == 0:
            down, across = motion[row, column, 0], motion[row, column, 1]
        elif which == 1 and column > 0:
            down, across = motion[row, column - 1, 0], motion[row, column - 1, 1]
        elif which == 2 and row > 0:
            down, across = motion[row - 1, column, 0], motion[row - 1, column, 1]
        else:
            continue
        cost = _at(half, before, row, column, down, across)
        if cost < best:
            best, best_down, best_across = cost, down, across
    step = 4
    while step:
        centre_down, centre_across = best_down, best_across
        for way in range(4):
            down = centre_down + (step if way == 0 else -step if way == 1 else 0)
            across = centre_across + (step if way == 2 else -step if way == 3 else 0)
            if abs(down) > _REACH or abs(across) > _REACH:
                continue
            cost = _at(half, before, row, column, down, across)
            if cost < best:
                best, best_down, best_across = cost, down, across
        if best_down == centre_down and best_across == centre_across:
            step //= 2
    return best_down, best_across, best, unmoved


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _at(half: Any, before: Any, row: int, column: int, down: int, across: int) -> Any:
    """|difference| of a block to the place that a vector leads to, which stays in the picture."""
    top, left = row * _HALF, column * _HALF
    there_top = min(max(top + down, 0), half.shape[0] - _HALF)
    there_left = min(max(left + across, 0), half.shape[1] - _HALF)
    total = np.int32(0)
    for line in range(_HALF):
        new, old = half[top + line, left : left + _HALF], before[there_top + line, there_left : there_left + _HALF]
        for pixel in range(_HALF):
            total += _distance(new[pixel], old[pixel])
    return total
