"""A probe encode: a few frames of a scene, coded apart, and the scores of some of them.

It is not the scene: other frames, more key frames, and for slow presets a faster one. The model knows from its own
encodes what a probe says about a scene. A finished encode is checked by a few of its own frames, which say more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.encode.target.measured import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.target.measured import MeasuredEncode

FASTEST_NEEDED = 8  # preset; how much worse still faster ones are differs too much from scene to scene
FRAMES = 8  # of a window
SCORED = (2, 5)  # of its frames: from different layers, away from the key frame
SPACING = 120  # frames of a scene from one window to the next, where it is long
CHECKED_EVERY = 6  # frames of a finished encode
MOST_CHECKED = 24  # frames
_LAYERS = 4  # frames 2, 6, 10 ... of a mini-GOP of 16 lie in the middle of its layers, and so does their quality


def windows(frames: int) -> list[tuple[int, int]]:
    """(first frame, frames) of each stretch to encode, in the middle of its share of the scene; two at least.

    One stretch alone says little about a scene that changes: its mean VMAF is 1.7 off the scene's, that of two 0.6.
    """
    if frames <= 2 * FRAMES:
        return [(0, frames)]
    count = max(2, round(frames / SPACING))
    share = frames / count
    return [(int(share * place + (share - FRAMES) / 2), FRAMES) for place in range(count)]


def scored(lengths: Sequence[int]) -> tuple[int, ...]:
    """Frames to score of windows of these lengths, one after the other; all have a neighbour on both sides."""
    numbers: list[int] = []
    start = 0
    for length in lengths:
        inside = [n for k in range(0, length, FRAMES) for n in (k + SCORED[0], k + SCORED[1]) if n < length - 1]
        numbers += [start + n for n in inside or range(1, length - 1)]
        start += length
    return tuple(numbers)


def probe(stretches: Sequence[Clip], settings: EncoderSettings, crf: float, metrics: Sequence[str]) -> MeasuredEncode:
    """The windows of a scene at a CRF, as one encode."""
    fast = replace(settings, preset=max(settings.preset, FASTEST_NEEDED))
    return measured(stretches, fast, crf, scored([each.frame_count for each in stretches]), metrics)


def cost(frames: int, preset: int) -> float:
    """CPU of a probe with its scores over that of the encode of a scene of so many frames; measured at presets 8, 4."""
    coded = sum(count for _, count in windows(frames)) / frames
    slower = max(FASTEST_NEEDED - preset, 0) / 4
    return _DEARER * coded * float(_SLOWER**slower)


_DEARER, _SLOWER = 2.0, 0.3  # a frame of a probe over one of the scene; preset 8 over preset 4


def frames_to_check(frames: int) -> tuple[int, ...]:
    """Frames of a scene whose mean VMAF is nearly that of all; each has a neighbour on both sides.

    Frames of one layer are alike, and those of the lowest are two better than the mean: which frames are scored counts
    for more than how many.
    """
    count = min(max(1, round(frames / CHECKED_EVERY)), MOST_CHECKED)
    middle = _LAYERS // 2
    places = [(place + 0.5) * frames / count for place in range(count)]
    numbers = sorted({_LAYERS * round((place - middle) / _LAYERS) + middle for place in places})
    return tuple(n for n in numbers if 0 < n < frames - 1) or tuple(range(1, frames - 1))
