"""Which streams are left to the encoder's own cbr: those drawn with few levels, as games of old consoles.

Their shapes jump, flicker, and come back exactly as they were. In cbr SVT-AV1 refers to other pictures than where QPs
are given one by one, and refreshes blocks that stand still; no choice of QPs makes up for that there. Camera pictures
and screens with smooth letters take fewer bits by QPs. A stream that begins drawn is left to cbr up to the first frame
that is not, or while cbr keeps the bucket from being full; then QPs begin, with a key frame, and stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reelrl.content.frame import Frame

_LEVELS, _SHARE = 32, 0.99
"""Holds for every frame of every game among the development clips, and for nothing else."""


def is_drawn(frame: Frame) -> bool:
    """Whether few levels of luma cover the picture; a blank one too, as it may be one that flickers."""
    pixels = np.bincount(frame.at_depth(8).y[::2, ::2].ravel(), minlength=256)  # a quarter of them will do
    return bool(np.sort(pixels)[-_LEVELS:].sum() >= _SHARE * pixels.sum())
