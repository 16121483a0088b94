"""One picture: 8-bit 4:2:0 planes in a single contiguous buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ContentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Plane = NDArray[np.uint8]


def check_size(width: int, height: int) -> None:
    """Refuse what 4:2:0 encoders cannot take: odd, empty or negative dimensions."""
    if width <= 0 or height <= 0 or width % 2 or height % 2:
        raise ContentError(f"frame size is {width}x{height}; 4:2:0 video needs positive even numbers: crop or scale it")


def frame_bytes(width: int, height: int) -> int:
    """Bytes of one I420 frame."""
    return width * height * 3 // 2


class Frame:
    """One I420 picture; `y`, `u` and `v` are views into `data`, so nothing is copied.

    `data` is flat uint8, C-contiguous: all of Y, then Cb, then Cr, without padding.
    """

    __slots__ = ("data", "height", "width")

    def __init__(self, data: Plane, width: int, height: int) -> None:
        check_size(width, height)
        if data.dtype != np.uint8:
            raise ContentError(f"frame data is {data.dtype}; only 8-bit video is supported: pass uint8 planes")
        if data.size != frame_bytes(width, height):
            raise ContentError(
                f"frame data has {data.size} bytes, {width}x{height} in 4:2:0 needs {frame_bytes(width, height)}"
            )
        self.data: Plane = np.ascontiguousarray(data).reshape(-1)
        self.width = width
        self.height = height

    @classmethod
    def empty(cls, width: int, height: int) -> Frame:
        """A frame with undefined pixels, to be filled."""
        return cls(np.empty(frame_bytes(width, height), np.uint8), width, height)

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

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return (self.width, self.height) == (other.width, other.height) and bool(np.array_equal(self.data, other.data))

    __hash__ = None  # type: ignore[assignment]  # mutable pixels

    def __repr__(self) -> str:
        return f"Frame({self.width}x{self.height})"
