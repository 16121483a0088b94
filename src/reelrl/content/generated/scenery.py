"""Things to put into generated scenes: houses, cars, people, windows full of text. All are layers (see canvas.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.colour import chroma, luma
from reelrl.content.generated.canvas import mix, noise, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.generated.canvas import Picture

    Colour = tuple[int, int, int]
    """Y, Cb, Cr."""

WORDS = (
    "BAKERY",
    "BOOKS",
    "HOTEL",
    "CAFE",
    "RADIO",
    "MARKET",
    "TAILOR",
    "CINEMA",
    "FLOWERS",
    "TEA",
    "BANK",
    "MUSEUM",
    "STATION",
    "PHOTO",
    "SHOES",
    "GARDEN",
)
CODE = (
    "FOR",
    "FRAME",
    "IN",
    "CLIP",
    "RETURN",
    "QP",
    "IF",
    "BITS",
    "ELSE",
    "RATE",
    "DEF",
    "STEP",
    "SELF",
    "LOOP",
    "264",
    "90",
    "1080",
    "64",
    "X",
    "Y",
    "WHILE",
    "LAMBDA",
    "READ",
)
# Five columns by seven rows, a byte per row, top first.
GLYPHS = {
    letter: bytes.fromhex(rows)
    for letter, rows in {
        "A": "0e11111f111111", "B": "1e11111e11111e", "C": "0e11101010110e", "D": "1e11111111111e",
        "E": "1f10101e10101f", "F": "1f10101e101010", "G": "0e11101711110e", "H": "1111111f111111",
        "I": "0e04040404040e", "J": "0702020202120c", "K": "11121418141211", "L": "1010101010101f",
        "M": "111b1515111111", "N": "11191513111111", "O": "0e11111111110e", "P": "1e11111e101010",
        "Q": "0e11111115120d", "R": "1e11111e141211", "S": "0f10100e01011e", "T": "1f040404040404",
        "U": "1111111111110e", "V": "11111111110a04", "W": "11111115151b11", "X": "11110a040a1111",
        "Y": "11110a04040404", "Z": "1f01020408101f", "0": "0e13151519110e", "1": "040c040404040e",
        "2": "0e11010204081f", "4": "02060a121f0202", "6": "0608101e11110e", "8": "0e11110e11110e",
        "9": "0e11110f01020c",
    }.items()
}  # fmt: skip


def rgb(red: int, green: int, blue: int) -> Colour:
    """Y, Cb, Cr of a colour, BT.601, video range."""
    return (luma(red, green, blue), *chroma(red, green, blue))


def hue(seed: int, label: int, light: int = 128) -> Colour:
    """A muted colour of the given lightness."""
    return light, pick(seed, label, 110, 142), pick(seed, label + 1, 116, 144)


def blank(height: int, width: int, colour: Colour | None = None) -> Picture:
    """A layer of one colour; without a colour, one that is transparent."""
    layer = np.zeros((max(1, height), max(1, width), 4), np.uint8)
    layer[..., :3] = colour or (128, 128, 128)
    layer[..., 3] = 255 if colour else 0
    return layer


def box(layer: Picture, x: int, y: int, width: int, height: int, colour: Colour) -> None:
    layer[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)] = (*colour, 255)


def oval(layer: Picture, x: int, y: int, radius_x: int, radius_y: int, colour: Colour) -> None:
    """A filled ellipse around (x, y)."""
    rows, columns = np.ogrid[: layer.shape[0], : layer.shape[1]]
    rx, ry = max(1, radius_x), max(1, radius_y)
    inside = (columns - x) ** 2 * (ry * ry) + (rows - y) ** 2 * (rx * rx) <= rx * rx * ry * ry
    layer[inside] = (*colour, 255)


def glow(radius: int, colour: Colour) -> Picture:
    """A round light that fades to nothing."""
    layer = blank(2 * radius + 1, 2 * radius + 1, colour)
    rows, columns = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    near = np.maximum(0, radius * radius - rows * rows - columns * columns)
    layer[..., 3] = 230 * near * near // radius**4
    return layer


def roughen(layer: Picture, strength: int, cell: int, seed: int) -> Picture:
    """The same layer with a cloudy texture on its luma; strength 256 would swing over the whole range."""
    height, width = layer.shape[:2]
    grain = noise(height, width, cell, 3, seed).astype(np.int32) - 128
    layer[..., 0] = np.clip(layer[..., 0] + (grain * strength >> 8), 16, 235)
    return layer


def halve(layer: Picture) -> Picture:
    """Half the size, with soft edges; draw things twice as large and halve them."""
    height, width = layer.shape[0] // 2 * 2, layer.shape[1] // 2 * 2
    quads = layer[:height, :width].astype(np.int32).reshape(height // 2, 2, width // 2, 2, 4)
    opacity = quads[..., 3].sum(axis=(1, 3))
    weighted = (quads[..., :3] * quads[..., 3:]).sum(axis=(1, 3))
    colours = weighted // np.maximum(1, opacity)[..., None]
    return np.concatenate([colours, opacity[..., None] // 4], axis=2).astype(np.uint8)


def write(layer: Picture, x: int, y: int, text: str, colour: Colour, scale: int = 1) -> int:
    """Capital letters, seven times `scale` high; returns where the next letter would begin."""
    for letter in text:
        rows = np.frombuffer(GLYPHS.get(letter, bytes(7)), np.uint8)
        bits = np.unpackbits(rows[:, None], axis=1)[:, 3:].astype(bool)
        shape = bits.repeat(scale, axis=0).repeat(scale, axis=1)
        target = layer[y : y + 7 * scale, x : x + 5 * scale]
        target[shape[: target.shape[0], : target.shape[1]]] = (*colour, 255)
        x += 6 * scale
    return x


def house(width: int, height: int, seed: int, *, night: bool = False) -> Picture:
    """A facade with rows of windows, and a shop with a sign on the ground floor."""
    wall = hue(seed, 1, pick(seed, 2, 80, 165))
    layer = roughen(blank(height, width, wall), pick(seed, 3, 30, 80), 12, seed)
    storey, bay = max(8, height // pick(seed, 4, 5, 7)), max(6, width // pick(seed, 5, 4, 6))
    for row, top in enumerate(range(storey // 3, height - storey - storey // 2, storey)):
        for column, left in enumerate(range(bay // 4, width - bay // 2, bay)):
            lit = mix(seed, row, column) % 5 < 2
            glass = rgb(250, 215, 130) if night and lit else (pick(seed, 40 + row * 9 + column, 34, 90), 134, 124)
            box(layer, left - 1, top - 1, bay // 2 + 2, storey * 3 // 5 + 2, (min(225, wall[0] + 45), *wall[1:]))
            box(layer, left, top, bay // 2, storey * 3 // 5, glass)
            box(layer, left + bay // 4, top, 1, storey * 3 // 5, (wall[0], *wall[1:]))
    _shop(layer, storey, bay, seed)
    layer[:3, :, 0] = layer[:3, :, 0] // 2 + 12
    return layer


def _shop(layer: Picture, storey: int, bay: int, seed: int) -> None:
    height, width = layer.shape[:2]
    board = hue(seed, 7, pick(seed, 8, 50, 200))
    box(layer, 0, height - storey - storey // 3, width, storey // 3 + 1, board)
    scale = max(1, storey // 30)
    ink = (225 if board[0] < 120 else 30, 128, 128)
    write(layer, bay // 3, height - storey - storey // 4, WORDS[pick(seed, 9, 0, len(WORDS) - 1)], ink, scale)
    box(layer, bay // 3, height - storey * 4 // 5, width - bay, storey * 4 // 5, (58, 136, 122))
    box(layer, width - bay // 2, height - storey * 3 // 4, bay // 3, storey, hue(seed, 11, 70))


def car(length: int, seed: int) -> Picture:
    """A car seen from the side, `length` pixels long, heading right."""
    long, high = 2 * length, length * 4 // 5
    layer = blank(high, long)
    paint = hue(seed, 1, pick(seed, 3, 60, 200))
    paint = (paint[0], paint[1] + pick(seed, 4, -30, 30), paint[2] + pick(seed, 5, -30, 40))
    oval(layer, long // 2, high * 2 // 5, long * 3 // 10, high * 2 // 5, paint)
    oval(layer, long // 2, high * 2 // 5, long * 5 // 20, high * 6 // 20, (45, 136, 122))
    box(layer, long // 2 - 2, 0, 4, high // 2, paint)
    layer[high // 2 :] = (128, 128, 128, 0)
    box(layer, long // 30, high * 2 // 5, long * 28 // 30, high * 2 // 5, paint)
    box(layer, long // 30, high * 11 // 20, long * 28 // 30, max(2, high // 30), (min(235, paint[0] + 40), *paint[1:]))
    box(layer, long * 27 // 30, high * 9 // 20, long // 20, high // 12, rgb(255, 240, 180))
    box(layer, long // 30, high * 9 // 20, long // 30, high // 12, rgb(200, 20, 20))
    for wheel in (long // 4, long * 3 // 4):
        oval(layer, wheel, high * 4 // 5, high // 6, high // 6, (28, 128, 128))
        oval(layer, wheel, high * 4 // 5, high // 13, high // 13, (170, 128, 128))
    return halve(layer)


def walker(height: int, seed: int, pose: int) -> Picture:
    """A person seen from the side; poses 0 to 3 make a step."""
    high, wide = 2 * height, height
    layer = blank(high, wide)
    coat, legs = hue(seed, 1, pick(seed, 3, 50, 190)), hue(seed, 5, pick(seed, 6, 35, 90))
    spread = (wide // 9, wide // 4, wide // 9, -wide // 12)[pose]
    for side in (-1, 1):
        for row in range(high * 11 // 20, high):
            reach = side * spread * (row - high * 11 // 20) // (high * 9 // 20)
            box(layer, wide // 2 + reach - wide // 14, row, wide // 7, 1, legs)
    oval(layer, wide // 2, high * 2 // 5, wide // 6, high // 5, coat)
    oval(layer, wide // 2, high // 9, wide // 9, high // 11, rgb(205, 160, 130))
    oval(layer, wide // 2 - wide // 40, high // 13, wide // 9, high // 17, hue(seed, 8, pick(seed, 9, 30, 110)))
    return halve(layer)


def page(width: int, lines: int, seed: int, *, scale: int = 1, dark: bool = True) -> Picture:
    """Lines of words like a program's source, indented and coloured."""
    pitch = 10 * scale
    layer = blank(lines * pitch, width, (32, 130, 126) if dark else (228, 128, 128))
    ink = 190 if dark else 40
    colours = ((ink, 128, 128), (ink, 110, 150), (ink, 160, 110), (ink - 40 if dark else 110, 118, 118))
    for line in range(lines):
        x = 6 + 12 * scale * pick(seed, line * 31, 0, 3)
        for word in range(pick(seed, line * 31 + 1, 0, 7)):
            chance = int(mix(seed, line, word))
            x = write(layer, x, line * pitch + 2, CODE[chance % len(CODE)], colours[chance >> 8 & 3], scale) + 5 * scale
            if x > width - 40 * scale:
                break
    return layer


def pointer(size: int) -> Picture:
    """A mouse pointer: white with a dark edge."""
    layer = blank(size * 2, size * 2)
    for row in range(size * 2):
        box(layer, 0, row, max(0, min(row * 2 // 3, size * 2 - row)) + 3, 1, (20, 128, 128))
        box(layer, 2, row, max(0, min(row * 2 // 3, size * 2 - row) - 1), 1, (235, 128, 128))
    return halve(layer)


def cloudy(height: int, width: int, cell: int, seed: int, colour: Colour, cut: int) -> Picture:
    """Soft patches of one colour; `cut` is the level of noise (0 to 255) below which the sky is clear."""
    layer = blank(height, width, colour)
    level: NDArray[np.int32] = noise(height, width, cell, 4, seed).astype(np.int32)
    layer[..., 3] = np.clip((level - cut) * 3, 0, 200)
    return layer
