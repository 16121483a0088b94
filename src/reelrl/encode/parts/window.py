"""In which order parts are coded, and what each knows of those before: a window that slides over them.

finished    0  0  1  2  3  4 ...        of 24 parts, in their order
planned     8  8  9 10 11 12 ...        so part 8 knows what part 0 took, part 9 what 0 and 1 took

A third of what is not finished is planned at a time: many can work at once, and the last parts know nearly all others.
Nobody waits unless a single part takes as long as all others of its window. Order and window depend on the video alone:
so the bytes do not depend on how many work at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.parts.cuts import VideoPart

FEW, _MANY = 6, 24
_LEAST, _SHARE = 4, 3
_GOLDEN = 0.618034


def coding_order(parts: Sequence[VideoPart]) -> list[VideoPart]:
    """Longest first: the last are short, and all who work end at about the same time.

    Parts of one length are spread over the video.
    """
    return sorted(parts, key=lambda part: (-part.frames, part.number * _GOLDEN % 1))


def planned(finished: int, parts: int) -> int:
    """How many of all parts have their budget when so many are finished: of few parts, all at once."""
    if parts < FEW:
        return parts
    return min(parts, finished + max(_LEAST, (parts - finished) // _SHARE))


def is_held(place: int, parts: int) -> bool:
    """Whether the part in this place of the order is held to its bits, or may take what it takes at one quality.

    What a part misses is made up for by later ones: the last third has few of them, and few parts have none to spare.
    """
    return parts < _MANY or place >= 2 * parts // 3
