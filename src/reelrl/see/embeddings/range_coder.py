"""Whole numbers on small grids, coded into bytes: prediction, context, adaptive binary range coder.

    planes --predict--> residuals --binarise--> bits --range coder--> bytes

A residual is coded as "zero?", sign, and a unary magnitude; each bit has an adaptive probability of its own, chosen by
the plane and by how large the residuals to the left and above were. One walk over the numbers serves both ways: when
it decodes, each bit comes out of the bytes instead of the numbers, so the two cannot drift apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NOTHING, NEIGHBOURS, LAST_FRAME = 0, 1, 2
"""What a plane's numbers are predicted from: zero, those to the left and above, or the frame before."""

LARGEST = 2**20
"""Magnitude of a number that can still be coded."""

_CLASSES = 7  # of the residuals around
_UNARY = 14  # magnitudes coded bit by bit; larger ones continue as an Exp-Golomb code
_LONGEST = 22  # bits of such a continuation
_ZERO, _SIGN, _LENGTH, _BITS = 0, 1, 2 + _UNARY, 2 + _UNARY + _LONGEST
_ONE = 1 << 15  # probabilities are of 15 bits
_SLOWEST = 250  # an adaptive probability averages over at most this many bits
_TOP, _MASK32 = 1 << 24, (1 << 32) - 1
_WORST_BYTES = 52  # of one number: 38 adaptive bits that take 10 each, and 22 plain ones
# Places in the coder's state.
_LOW, _RANGE, _CACHE, _PENDING, _AT, _DECODING = 0, 1, 2, 3, 4, 5


def encode(frames: Ints, planes: Sequence[tuple[int, int]], predictors: Sequence[int]) -> bytes:
    """Bytes of `frames`, (frames, numbers): the planes (height, width) of a frame one after the other."""
    layout, models, counts = _layout(planes), _models(len(planes)), _counts(len(planes))
    state = np.array([0, _MASK32, 0, 1, 0, 0], np.int64)
    coded, last = bytearray(), np.zeros(frames.shape[1], np.int64)
    for frame in frames:
        now = frame.astype(np.int64)
        # Bytes that wait for a carry may come out with any later frame.
        buffer = np.empty(now.size * _WORST_BYTES + int(state[_PENDING]), np.uint8)
        _walk(state, buffer, now, last, layout, np.array(predictors, np.int64), models, counts)
        coded += buffer[: state[_AT]].tobytes()
        state[_AT] = 0
        last = now
    buffer = np.empty(16 + int(state[_PENDING]), np.uint8)
    for _ in range(5):
        _shift_low(state, buffer)
    coded += buffer[: state[_AT]].tobytes()
    # The first byte is always zero and zeros at the end are read from nothing.
    return bytes(coded[1:]).rstrip(b"\0")


def decode(data: bytes, count: int, planes: Sequence[tuple[int, int]], predictors: Sequence[int]) -> Ints:
    """The `count` frames that `encode` was given; of bytes that it did not make, some numbers or other."""
    layout, models, counts = _layout(planes), _models(len(planes)), _counts(len(planes))
    buffer = np.frombuffer(bytearray(data + bytes(4)), np.uint8)
    state = np.array([int.from_bytes(bytes(buffer[:4]), "big"), _MASK32, 0, 0, 4, 1], np.int64)
    numbers = sum(height * width for height, width in planes)
    frames = np.zeros((count, numbers), np.int64)
    last = np.zeros(numbers, np.int64)
    for frame in frames:
        _walk(state, buffer, frame, last, layout, np.array(predictors, np.int64), models, counts)
        last = frame
    return frames


def cost(residuals: Ints) -> float:
    """Bits that the residuals take, roughly; good enough to choose a predictor by."""
    return float(np.log2(1.0 + np.abs(residuals)).sum())


def neighbour_residuals(plane: Ints) -> Ints:
    """What NEIGHBOURS leaves of planes (frames, height, width)."""
    padded = np.pad(plane, ((0, 0), (1, 0), (1, 0)))
    left, up, corner = padded[:, 1:, :-1], padded[:, :-1, 1:], padded[:, :-1, :-1]
    guess: Ints = np.clip(left + up - corner, np.minimum(left, up), np.maximum(left, up))
    return plane - guess


def _layout(planes: Sequence[tuple[int, int]]) -> Ints:
    return np.array(planes, np.int64).reshape(-1, 2)


def _models(planes: int) -> NDArray[np.int32]:
    return np.full((planes, _CLASSES, _BITS), _ONE // 2, np.int32)


def _counts(planes: int) -> NDArray[np.int32]:
    return np.zeros((planes, _CLASSES, _BITS), np.int32)


def _jit(function: Any) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


@_jit
def _shift_low(state, buffer):  # type: ignore[no-untyped-def]
    """Move the top byte of the interval's start out, as soon as no carry can change it."""
    if state[_LOW] < 0xFF000000 or state[_LOW] > _MASK32:
        carry = state[_LOW] >> 32
        byte = state[_CACHE]
        while state[_PENDING] > 0:
            buffer[state[_AT]] = (byte + carry) & 0xFF
            state[_AT] += 1
            state[_PENDING] -= 1
            byte = 0xFF
        state[_CACHE] = (state[_LOW] >> 24) & 0xFF
    state[_PENDING] += 1
    state[_LOW] = (state[_LOW] << 8) & _MASK32


@_jit
def _split(state, buffer, bound, bit):  # type: ignore[no-untyped-def]
    """Code one bit: zero owns the part of the interval below `bound`."""
    if state[_DECODING]:
        bit = state[_LOW] >= bound
        if bit:
            state[_LOW] -= bound
    elif bit:
        state[_LOW] += bound
    state[_RANGE] = state[_RANGE] - bound if bit else bound
    while state[_RANGE] < _TOP:
        state[_RANGE] <<= 8
        if state[_DECODING]:
            byte = buffer[state[_AT]] if state[_AT] < buffer.size else 0
            state[_AT] += 1
            state[_LOW] = (state[_LOW] << 8) | byte
        else:
            _shift_low(state, buffer)
    return bit


@_jit
def _adaptive_bit(state, buffer, model, count, place, bit):  # type: ignore[no-untyped-def]
    bit = _split(state, buffer, (state[_RANGE] >> 15) * model[place], bit)
    target = 0 if bit else _ONE
    model[place] += (target - model[place]) // (count[place] + 2)
    model[place] = min(max(model[place], 32), _ONE - 32)
    count[place] = min(count[place] + 1, _SLOWEST)
    return bit


@_jit
def _plain_bit(state, buffer, bit):  # type: ignore[no-untyped-def]
    return _split(state, buffer, state[_RANGE] >> 1, bit)


@_jit
def _number(state, buffer, model, count, value):  # type: ignore[no-untyped-def]
    """Code one residual; `value` counts only when encoding."""
    if _adaptive_bit(state, buffer, model, count, _ZERO, value == 0):
        return 0
    negative = _adaptive_bit(state, buffer, model, count, _SIGN, value < 0)
    magnitude = 1
    while magnitude <= _UNARY:
        if not _adaptive_bit(state, buffer, model, count, 1 + magnitude, abs(value) > magnitude):
            break
        magnitude += 1
    if magnitude > _UNARY:
        magnitude += _exp_golomb(state, buffer, model, count, abs(value) - magnitude)
    return -magnitude if negative else magnitude


@_jit
def _exp_golomb(state, buffer, model, count, value):  # type: ignore[no-untyped-def]
    length = 0
    # No number of ours is longer; of damaged bytes the loop must end too.
    while length < _LONGEST:
        if not _adaptive_bit(state, buffer, model, count, _LENGTH + length, (value + 1) >> (length + 1) > 0):
            break
        length += 1
    code = 1
    for place in range(length - 1, -1, -1):
        code = (code << 1) | int(_plain_bit(state, buffer, ((value + 1) >> place) & 1 == 1))
    return code - 1


@_jit
def _class_of(around):  # type: ignore[no-untyped-def]
    """Which of the contexts: 0, 1, 2, 3-4, 5-8, 9-16, more."""
    for index in range(2):
        if around <= index:
            return index
    limit, index = 2, 2
    while around > limit and index < _CLASSES - 1:
        limit *= 2
        index += 1
    return index


@_jit
def _walk(state, buffer, now, last, layout, predictors, models, counts):  # type: ignore[no-untyped-def]
    """Code the numbers of one frame, or fill `now` with them."""
    residuals = np.zeros(now.size, np.int64)
    start = 0
    for plane in range(layout.shape[0]):
        height, width = layout[plane]
        for row in range(height):
            for column in range(width):
                at = start + row * width + column
                left = now[at - 1] if column else 0
                up = now[at - width] if row else 0
                around = abs(residuals[at - 1]) if column else 0
                around += abs(residuals[at - width]) if row else 0
                guess = 0
                if predictors[plane] == NEIGHBOURS:
                    corner = now[at - width - 1] if row and column else 0
                    guess = min(max(left + up - corner, min(left, up)), max(left, up))
                elif predictors[plane] == LAST_FRAME:
                    guess = last[at]
                kind = _class_of(around)
                residuals[at] = _number(state, buffer, models[plane, kind], counts[plane, kind], now[at] - guess)
                now[at] = guess + residuals[at]
        start += height * width
