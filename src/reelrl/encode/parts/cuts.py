"""Where a video is cut: at scene changes, and where a key frame is due anyway when a scene lasts too long."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

SCENE_CHANGE = 1.1
"""Of a frame's novelty (`reelrl.encode.parts.scan`), from which on a scene begins with it."""

LONGEST_S = 20.0
SHORTEST_S = 1.0
"""A scene change so soon after a cut is left inside its part: each part costs a key frame and an encoder's start."""


class VideoPart(NamedTuple):
    """Frames that are coded on their own, from a key frame on."""

    number: int
    first: int
    frames: int

    @property
    def end(self) -> int:
        """The frame after the last one."""
        return self.first + self.frames


def scene_changes(novelty: ArrayLike, fps: Fraction) -> list[int]:
    """The first frame of each scene but the first; no scene is shorter than `SHORTEST_S`."""
    values = np.asarray(novelty)
    least = math.ceil(SHORTEST_S * fps)
    starts: list[int] = []
    for frame in np.flatnonzero(values >= SCENE_CHANGE).tolist():
        if frame - (starts[-1] if starts else 0) >= least and len(values) - frame >= least:
            starts.append(frame)
    return starts


def cut(novelty: ArrayLike, fps: Fraction, keyint: int = -1) -> tuple[VideoPart, ...]:
    """All parts of a video by the novelty of its frames; none lasts longer than `LONGEST_S`.

    `keyint` frames after a key frame comes the next one: a long scene is cut there where that is soon enough, else into
    equal parts.
    """
    count = len(np.asarray(novelty))
    starts = [0, *scene_changes(novelty, fps), count]
    parts: list[VideoPart] = []
    for first, end in pairwise(starts):
        for start, stop in _divided(first, end, fps, keyint):
            parts.append(VideoPart(len(parts), start, stop - start))
    return tuple(parts)


def _divided(first: int, end: int, fps: Fraction, keyint: int) -> list[tuple[int, int]]:
    """A scene in stretches that are neither too long nor too short."""
    longest = max(int(LONGEST_S * fps), 1)
    number = -(-(end - first) // longest)
    if number == 1:
        return [(first, end)]
    if 0 < keyint <= longest:
        places = list(range(first, end, longest // keyint * keyint))
        if end - places[-1] < SHORTEST_S * fps:
            places[-1] = (places[-2] + end) // 2  # a key frame more is cheaper than a part of a few frames
    else:
        places = [first + round((end - first) * place / number) for place in range(number)]
    return list(zip(places, [*places[1:], end], strict=True))
