"""Which streams are left to the encoder's own cbr, and for how long: those drawn with few levels, as old games are.

Their shapes jump, flicker, and come back exactly as they were. In cbr SVT-AV1 refers to other pictures than where QPs
are given one by one, and refreshes blocks that stand still; no choice of QPs makes up for that there. Camera pictures
and screens with smooth letters take fewer bits by QPs. The first frame decides. What ends it, with a key frame, is a
picture with more levels, or a full bucket: then the next frame would be late however few bits it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Frame

_LEVELS, _SHARE = 32, 0.99
"""Holds for every game among the development clips, and for nothing else."""

_FEWEST = 3  # a blank picture, or one of two levels, doesn't say what comes


def is_drawn(frame: Frame) -> bool:
    """Whether a few levels of luma cover the picture, and not just one or two."""
    return has_few_levels(frame) and np.count_nonzero(_pixels_by_level(frame)) >= _FEWEST


def has_few_levels(frame: Frame) -> bool:
    """Whether a few levels of luma cover the picture."""
    pixels = _pixels_by_level(frame)
    return bool(np.sort(pixels)[-_LEVELS:].sum() >= _SHARE * pixels.sum())


def _pixels_by_level(frame: Frame) -> NDArray[np.int64]:
    return np.bincount(frame.at_depth(8).y.ravel(), minlength=256)
