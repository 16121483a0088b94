"""RGB pictures into 4:2:0 frames, in whole numbers, so that the same picture gives the same bytes everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.frame import Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray


def luma(red: Any, green: Any, blue: Any) -> Any:
    """Y of BT.601 in video range (16 to 235), for 8-bit RGB; numbers or int32 arrays."""
    return 16 + ((66 * red + 129 * green + 25 * blue + 128) >> 8)


def chroma(red: Any, green: Any, blue: Any, *, pixels: int = 1) -> tuple[Any, Any]:
    """Cb and Cr of BT.601 in video range (16 to 240), for the sum of that many 8-bit RGB pixels (1 or 4)."""
    bits = 8 + pixels // 2
    half = 1 << bits - 1
    blue_difference = 128 + ((-38 * red - 74 * green + 112 * blue + half) >> bits)
    red_difference = 128 + ((112 * red - 94 * green - 18 * blue + half) >> bits)
    return blue_difference, red_difference


def frame_from_rgb(picture: NDArray[np.uint8]) -> Frame:
    """A frame from (height, width, 3) RGB with even sides; chroma is the average of 2x2 pixels."""
    height, width = picture.shape[:2]
    frame = Frame.empty(width, height)
    wide = picture.astype(np.int32)
    frame.y[...] = luma(wide[..., 0], wide[..., 1], wide[..., 2])
    quads = wide.reshape(height // 2, 2, width // 2, 2, 3).sum(axis=(1, 3))
    frame.u[...], frame.v[...] = chroma(quads[..., 0], quads[..., 1], quads[..., 2], pixels=4)
    return frame
