"""One picture: 4:2:0 planes of 8 or 10 bits in a single contiguous buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Plane = NDArray[np.unsignedinteger[Any]]

DEPTHS = (8, 10)
"""Bits of a sample: 8 are held as uint8, 10 as uint16."""


def check_size(width: int, height: int) -> None:
    """Refuse what 4:2:0 encoders cannot take: odd, empty or negative dimensions."""
    if width <= 0 or height <= 0 or width % 2 or height % 2:
        raise ContentError(f"frame size is {width}x{height}; 4:2:0 video needs positive even numbers: crop or scale it")


def check_depth(depth: int) -> None:
    if depth not in DEPTHS:
        raise ConfigError(f"depth = {depth}; a sample has 8 or 10 bits")


def frame_samples(width: int, height: int) -> int:
    """Samples of one I420 frame, all planes together."""
    return width * height * 3 // 2


def frame_bytes(width: int, height: int, depth: int = 8) -> int:
    """Bytes of one I420 frame."""
    return frame_samples(width, height) * (1 if depth == 8 else 2)


class Frame:
    """One I420 picture; `y`, `u` and `v` are views into `data`, so nothing is copied.

    `data` is flat, C-contiguous: all of Y, then Cb, then Cr, without padding; uint8, or uint16 for 10 bits (0 to 1023).
    """

    __slots__ = ("data", "height", "width")

    def __init__(self, data: Plane, width: int, height: int) -> None:
        check_size(width, height)
        if data.dtype not in (np.uint8, np.uint16):
            raise ContentError(f"frame data is {data.dtype}; pass uint8 planes, or uint16 for 10 bits")
        if data.size != frame_samples(width, height):
            raise ContentError(
                f"frame data has {data.size} samples, {width}x{height} in 4:2:0 needs {frame_samples(width, height)}"
            )
        self.data: Plane = np.ascontiguousarray(data).reshape(-1)
        self.width = width
        self.height = height

    @classmethod
    def empty(cls, width: int, height: int, depth: int = 8) -> Frame:
        """A frame with undefined pixels, to be filled."""
        check_depth(depth)
        return cls(np.empty(frame_samples(width, height), np.uint8 if depth == 8 else np.uint16), width, height)

    @property
    def depth(self) -> int:
        """Bits of a sample, 8 or 10."""
        return 8 if self.data.itemsize == 1 else 10

    @property
    def y(self) -> Plane:
        return self.data[: self.width * self.height].reshape(self.height, self.width)

    @property
    def u(self) -> Plane:
        area = self.width * self.height
        return self.data[area : area * 5 // 4].reshape(self.height // 2, self.width // 2)

    @property
    def v(self) -> Plane:
        return self.data[self.width * self.height * 5 // 4 :].reshape(self.height // 2, self.width // 2)

    @property
    def planes(self) -> tuple[Plane, Plane, Plane]:
        return self.y, self.u, self.v

    def at_depth(self, depth: int) -> Frame:
        """The picture with samples of so many bits: 8 are shifted up, 10 are rounded to the nearest, without dither."""
        check_depth(depth)
        if depth == self.depth:
            return self
        if depth == 10:
            return Frame(np.left_shift(self.data, 2, dtype=np.uint16), self.width, self.height)
        rounded = np.minimum((self.data + np.uint16(2)) >> 2, 255)  # 1022 and 1023 would round to 256
        return Frame(rounded.astype(np.uint8), self.width, self.height)

    def check_range(self) -> None:
        """Refuse samples that do not fit their depth: 16-bit video, or bytes the other way round."""
        if self.depth == 10 and (largest := int(self.data.max())) > 1023:
            raise ContentError(
                f"a sample of a 10-bit frame is {largest}, the largest is 1023; give 10 bits in the low end of uint16"
            )

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        alike = (self.width, self.height, self.depth) == (other.width, other.height, other.depth)
        return alike and bool(np.array_equal(self.data, other.data))

    __hash__ = None  # type: ignore[assignment]  # mutable pixels

    def __repr__(self) -> str:
        return f"Frame({self.width}x{self.height}{', 10 bit' if self.depth == 10 else ''})"
