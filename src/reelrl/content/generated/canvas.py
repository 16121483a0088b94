"""Fast drawing in whole numbers, so that a picture is the same to the byte on every machine.

A layer is (height, width, 4) uint8: Y, Cb, Cr, opacity. A canvas is (height, width, 3) uint8. Positions are in 1/256
pixel; angles in 1/1024 turn; chance is a hash of (seed, where, when) and has no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Picture = NDArray[np.uint8]

SUBPIXEL = 256
TURN = 1024
_WORD = 0xFFFFFFFF


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def mix(seed: int, a: int, b: int) -> int:
    """32 well-mixed bits from three whole numbers."""
    bits = (seed * 0x9E3779B1 + a * 0x85EBCA6B + b * 0xC2B2AE35) & _WORD
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & _WORD
    bits = ((bits ^ (bits >> 15)) * 0x846CA68B) & _WORD
    return bits ^ (bits >> 16)


def pick(seed: int, label: int, low: int, high: int) -> int:
    """A number in [low, high] that depends on the seed and the label only."""
    return low + int(mix(seed, label, 0x51ED)) % (high - low + 1)


def _sine_table() -> NDArray[np.int32]:
    """One turn of sine, +-4096, by Bhaskara's fraction: the maths library may round differently elsewhere."""
    half = TURN // 2
    x = np.arange(half, dtype=np.int64)
    bow = x * (half - x)
    arc = (4 * 4096 * 4 * bow) // (5 * half * half - 4 * bow)
    return np.concatenate([arc, -arc]).astype(np.int32)


SINE = _sine_table()


def sine(angle: int, amplitude: int) -> int:
    """`amplitude` times the sine of an angle in 1/1024 turn, in whole numbers."""
    return int(SINE[angle % TURN]) * amplitude // 4096


@njit(cache=True)  # type: ignore[untyped-decorator]
def noise(height: int, width: int, cell: int, octaves: int, seed: int) -> Any:
    """Cloudy texture with details from `cell` pixels downwards; it repeats seamlessly at its borders."""
    total = np.zeros((height, width), np.int32)
    weight = 128
    weights = 0
    for octave in range(octaves):
        rows = max(1, height // cell) << octave
        columns = max(1, width // cell) << octave
        for y in range(height):
            fy = y * rows * 256 // height
            iy, ty = fy >> 8, fy & 255
            below = (iy + 1) % rows
            sy = ty * ty * (768 - 2 * ty) >> 16
            for x in range(width):
                fx = x * columns * 256 // width
                ix, tx = fx >> 8, fx & 255
                right = (ix + 1) % columns
                sx = tx * tx * (768 - 2 * tx) >> 16
                a = mix(seed + octave, ix, iy) & 255
                b = mix(seed + octave, right, iy) & 255
                c = mix(seed + octave, ix, below) & 255
                d = mix(seed + octave, right, below) & 255
                top = a * 256 + (b - a) * sx
                bottom = c * 256 + (d - c) * sx
                total[y, x] += weight * ((top * 256 + (bottom - top) * sy) >> 16)
        weights += weight
        weight = weight * 5 >> 3
    out = np.empty((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            # Sums of octaves crowd around the middle: stretch them.
            level = 128 + ((total[y, x] // weights) - 128) * 7 // 4
            out[y, x] = min(255, max(0, level))
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def cover(canvas: Picture, layer: Picture, left: int, top: int, step: int) -> None:
    """Blend a layer that repeats without end over the whole canvas.

    Canvas pixel (x, y) shows layer position (left + x * step, top + y * step), in 1/256 pixel; bilinear.
    """
    height, width = layer.shape[:2]
    wide, high = width * 256, height * 256
    for y in range(canvas.shape[0]):
        sy = (top + y * step) % high
        y0, fy = sy >> 8, sy & 255
        y1 = y0 + 1 if y0 + 1 < height else 0
        sx = left % wide
        for x in range(canvas.shape[1]):
            x0, fx = sx >> 8, sx & 255
            x1 = x0 + 1 if x0 + 1 < width else 0
            w11 = fx * fy
            w01, w10 = (fx << 8) - w11, (fy << 8) - w11
            w00 = 65536 - w11 - w01 - w10
            alpha = (
                layer[y0, x0, 3] * w00 + layer[y0, x1, 3] * w01 + layer[y1, x0, 3] * w10 + layer[y1, x1, 3] * w11
            ) >> 16
            if alpha > 0:
                for channel in range(3):
                    value = (
                        layer[y0, x0, channel] * w00
                        + layer[y0, x1, channel] * w01
                        + layer[y1, x0, channel] * w10
                        + layer[y1, x1, channel] * w11
                        + 32768
                    ) >> 16
                    below = canvas[y, x, channel]
                    canvas[y, x, channel] = below + ((value - below) * (alpha + (alpha >> 7)) + 128 >> 8)
            sx += step
            if sx >= wide:
                sx -= wide


@njit(cache=True)  # type: ignore[untyped-decorator]
def stamp(canvas: Picture, layer: Picture, left: int, top: int) -> None:
    """Blend a layer once, its corner at (left, top) in 1/256 pixel; what falls outside is cut off."""
    height, width = layer.shape[:2]
    x_first, y_first = left >> 8, top >> 8
    fx, fy = 256 - (left & 255), 256 - (top & 255)
    for y in range(max(0, y_first), min(canvas.shape[0], y_first + height + 1)):
        y1 = y - y_first
        for x in range(max(0, x_first), min(canvas.shape[1], x_first + width + 1)):
            x1 = x - x_first
            opacity = 0
            y_sum = u_sum = v_sum = 0
            for dy in range(2):
                for dx in range(2):
                    ly, lx = y1 - 1 + dy, x1 - 1 + dx
                    if 0 <= ly < height and 0 <= lx < width:
                        share = ((256 - fx) if dx == 0 else fx) * ((256 - fy) if dy == 0 else fy)
                        weight = share * layer[ly, lx, 3]
                        opacity += weight
                        y_sum += weight * layer[ly, lx, 0]
                        u_sum += weight * layer[ly, lx, 1]
                        v_sum += weight * layer[ly, lx, 2]
            if opacity > 0:
                alpha = opacity // 65280
                canvas[y, x, 0] += ((y_sum // opacity - canvas[y, x, 0]) * alpha) >> 8
                canvas[y, x, 1] += ((u_sum // opacity - canvas[y, x, 1]) * alpha) >> 8
                canvas[y, x, 2] += ((v_sum // opacity - canvas[y, x, 2]) * alpha) >> 8


@njit(cache=True)  # type: ignore[untyped-decorator]
def ripple(canvas: Picture, first_row: int, texture: Picture, waves: Any, table: Any, t: int) -> None:
    """Paint moving water below `first_row`: crossing waves that bend a texture and catch the light.

    `waves` has a row (across, down, speed, height) per wave; near the bottom they look larger.
    """
    rows = canvas.shape[0] - first_row
    height, width = texture.shape
    for y in range(first_row, canvas.shape[0]):
        depth = 256 + 768 * (canvas.shape[0] - 1 - y) // rows  # perspective: far rows are squeezed
        for x in range(canvas.shape[1]):
            slope = 0
            for wave in range(waves.shape[0]):
                across, down, speed, size = waves[wave]
                angle = ((x * across + (y - first_row) * down) * depth >> 14) + speed * t
                slope += size * table[angle & 1023]
            slope >>= 12
            lit = texture[(y * 2 + (slope >> 2)) % height, (x + (slope >> 1)) % width]
            level = 70 + slope + (lit >> 2) + (canvas.shape[0] - y) * 40 // rows
            if slope > 34:
                level += (slope - 34) * 6
            canvas[y, x, 0] = min(235, max(16, level))
            canvas[y, x, 1] = 148 - (level >> 5)
            canvas[y, x, 2] = 112 + (level >> 5)


@njit(cache=True)  # type: ignore[untyped-decorator]
def develop(canvas: Picture, data: Picture, gain: int, grain: int, seed: int, t: int) -> None:
    """Turn the canvas into I420 bytes: light (gain in 1/256), film grain (0.3 levels rms per unit), range."""
    height, width = canvas.shape[:2]
    for y in range(height):
        for x in range(width):
            level = 16 + ((canvas[y, x, 0] - 16) * gain >> 8)
            if grain:
                bits = mix(seed + t, x, y)
                fuzz = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24) - 510
                level += (fuzz * grain + 256) >> 9
            data[y * width + x] = min(235, max(16, level))
    area, half = width * height, width // 2
    for y in range(height // 2):
        for x in range(half):
            for channel in range(2):
                total = (
                    int(canvas[2 * y, 2 * x, 1 + channel])
                    + canvas[2 * y, 2 * x + 1, 1 + channel]
                    + canvas[2 * y + 1, 2 * x, 1 + channel]
                    + canvas[2 * y + 1, 2 * x + 1, 1 + channel]
                )
                data[area + channel * area // 4 + y * half + x] = (total + 2) >> 2
