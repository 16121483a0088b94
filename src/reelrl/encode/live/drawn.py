"""Which streams are left to the encoder's own cbr: those drawn with few levels, as games of old consoles.

Their shapes jump, flicker, and come back exactly as they were. In cbr SVT-AV1 refers to other pictures than where QPs
are given one by one, and refreshes blocks that stand still; no choice of QPs makes up for that there. Camera pictures
and screens with smooth letters take fewer bits by QPs. A stream has one rate control, so its first frame decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reelrl.content.frame import Frame

_LEVELS, _SHARE = 32, 0.99
"""Holds for every game among the development clips, and for nothing else."""

_FEWEST = 3  # a blank picture, or one of two levels, doesn't say what comes


def is_drawn(frame: Frame) -> bool:
    """Whether few levels of luma cover the picture."""
    pixels = np.bincount(frame.at_depth(8).y.ravel(), minlength=256)
    common = np.sort(pixels)[-_LEVELS:].sum()
    return bool(np.count_nonzero(pixels) >= _FEWEST and common >= _SHARE * pixels.sum())
