"""Pictures at another size, as ladders make them and players show them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import cv2

from reelrl.content.frame import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.clip import Clip


def scaled(frame: Frame, width: int, height: int) -> Frame:
    """A frame at another size: pixels are averaged where it shrinks, bicubic where it grows."""
    if (width, height) == (frame.width, frame.height):
        return frame
    method = cv2.INTER_AREA if width < frame.width else cv2.INTER_CUBIC
    made = Frame.empty(width, height, frame.depth)
    most = (1 << frame.depth) - 1
    for plane, result in zip(frame.planes, made.planes, strict=True):
        # Cubic weights overshoot beside an edge: 10 bits in 16 would leave their range.
        result[...] = cv2.resize(plane, result.shape[::-1], interpolation=method).clip(0, most)
    return made


def scaled_clip(clip: Clip, width: int, height: int) -> Clip:
    """The clip at another size; still lazy."""
    if (width, height) == (clip.width, clip.height):
        return clip
    name = f"{clip.name}@{width}x{height}"
    reading = partial(_read_scaled, clip, width, height)
    return replace(clip, name=name, width=width, height=height, start_reading=reading)


def _read_scaled(clip: Clip, width: int, height: int, start: int) -> Iterator[Frame]:
    return (scaled(frame, width, height) for frame in clip.frames(start))
