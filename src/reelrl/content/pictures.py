"""Pictures for people: a frame in colour, its planes, its superblock grid, a map of QP offsets over it.

All are (height, width, 3) uint8 RGB; `save_png` writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reelrl.content.clip import SUPERBLOCK_SIZE, superblock_grid
from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from reelrl.content.frame import Frame

    Picture = NDArray[np.uint8]
    Colour = tuple[int, int, int]

# Share of red and of blue in luma.
MATRICES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
GRID_COLOUR = (255, 235, 60)
BETTER, WORSE = (40, 90, 255), (255, 60, 30)  # lower QP is blue, higher is red


def rgb(frame: Frame, matrix: str = "bt601", *, full_range: bool = False) -> Picture:
    """The frame in colour; chroma is stretched smoothly."""
    import cv2

    if matrix not in MATRICES:
        raise ConfigError(f"unknown colour matrix {matrix!r}; choose from {', '.join(MATRICES)}")
    red_share, blue_share = MATRICES[matrix]
    frame = frame.at_depth(8)
    size = (frame.width, frame.height)
    y = frame.y.astype(np.float32)
    cb, cr = (
        cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR).astype(np.float32) - 128 for plane in frame.planes[1:]
    )
    if not full_range:
        y, cb, cr = (y - 16) * (255 / 219), cb * (255 / 224), cr * (255 / 224)
    red = y + 2 * (1 - red_share) * cr
    blue = y + 2 * (1 - blue_share) * cb
    green = (y - red_share * red - blue_share * blue) / (1 - red_share - blue_share)
    return _to_bytes(np.stack([red, green, blue], axis=2))


def plane(frame: Frame, name: Literal["y", "cb", "cr"]) -> Picture:
    """One plane at its own size: luma as grey, a colour difference in its colour."""
    frame = frame.at_depth(8)
    if name == "y":
        return np.repeat(frame.y[..., None], 3, axis=2)
    level = {"cb": frame.u, "cr": frame.v}[name].astype(np.float32) - 128
    # Through grey; the other difference is zero.
    other = np.zeros_like(level)
    blue, red = (level, other) if name == "cb" else (other, level)
    return _to_bytes(np.stack([128 + 1.4 * red, 128 - 0.34 * blue - 0.71 * red, 128 + 1.77 * blue], axis=2))


def with_grid(picture: Picture, size: int = SUPERBLOCK_SIZE) -> Picture:
    """The picture with a thin line along every superblock's border."""
    marked = picture.copy()
    for lines in (marked[size::size], marked[:, size::size]):
        lines[...] = lines // 2 + np.array(GRID_COLOUR, np.uint8) // 2
    return marked


def with_offsets(
    picture: Picture,
    offsets: ArrayLike,
    *,
    size: int = SUPERBLOCK_SIZE,
    limit: float | None = None,
    numbers: bool = True,
) -> Picture:
    """The picture under a heat map of QP offsets, one per superblock in encoder order.

    Blue blocks get a lower QP (more bits), red ones a higher; `limit`, by default the largest offset, is full colour.
    """
    height, width = picture.shape[:2]
    rows, columns = superblock_grid(width, height, size)
    values = np.asarray(offsets, np.float64).reshape(-1)
    if values.size != rows * columns:
        raise ConfigError(f"offsets have {values.size} entries, this picture has {rows * columns} ({rows} x {columns})")
    full = limit or max(1.0, float(np.abs(values).max()))
    strength = np.clip(np.abs(values) / full, 0, 1) * 0.6
    tint = np.where(values[:, None] < 0, np.array(BETTER), np.array(WORSE)).astype(np.float64)
    weight = _spread(strength.reshape(rows, columns), size, height, width)[..., None]
    colour = _spread(tint.reshape(rows, columns, 3), size, height, width)
    grey = picture.mean(axis=2, keepdims=True) * 0.5 + picture * 0.5
    mapped = with_grid(_to_bytes((grey * (1 - weight) + colour * weight).astype(np.float32)), size)
    if numbers:
        _number(mapped, values.reshape(rows, columns), size)
    return mapped


def save_png(path: str | Path, picture: Picture) -> None:
    """Write a picture; it appears only when it is complete."""
    write_atomic(path, png_bytes(picture))


def png_bytes(picture: Picture) -> bytes:
    import cv2

    done, data = cv2.imencode(".png", np.ascontiguousarray(picture[..., ::-1]))
    if not done:
        raise ContentError(
            f"cannot make a PNG of an array of shape {picture.shape}; it must be (height, width, 3) uint8"
        )
    return bytes(data)


def caption(size: tuple[int, int], words: str, more: str, *, ground: Colour, left: Colour, right: Colour) -> Picture:
    """A strip (height, width) with words to the left and others to the right, each in its colour."""
    import cv2

    height, width = size
    strip: Picture = np.full((height, width, 3), ground, np.uint8)
    scale = height / 52
    (length, _), _ = cv2.getTextSize(more, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    margin = height // 6
    for line, x, colour in ((words, margin, left), (more, width - length - margin, right)):
        place = (x, height - 2 * margin)
        cv2.putText(strip, line, place, cv2.FONT_HERSHEY_SIMPLEX, scale, colour, 1, cv2.LINE_AA)
    return strip


def _spread(blocks: NDArray[np.float64], size: int, height: int, width: int) -> NDArray[np.float64]:
    """A value per block -> a value per pixel."""
    return blocks.repeat(size, axis=0).repeat(size, axis=1)[:height, :width]


def _number(picture: Picture, values: NDArray[np.float64], size: int) -> None:
    import cv2

    for (row, column), value in np.ndenumerate(values):
        if value:
            place = (column * size + size // 8, row * size + size // 3)
            scale: Any = size / 150
            for thickness, shade in ((3, (0, 0, 0)), (1, (255, 255, 255))):
                cv2.putText(
                    picture, f"{value:+g}", place, cv2.FONT_HERSHEY_SIMPLEX, scale, shade, thickness, cv2.LINE_AA
                )


def _to_bytes(values: NDArray[Any]) -> Picture:
    picture: Picture = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return picture
