"""In which order parts are coded: in rounds, so that what the first took corrects the budgets of the others.

A round begins when the one before is finished. Which part is in which round depends on the video alone: so the bytes do
not depend on how many work at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.parts.cuts import VideoPart

# Parts by the remainder of their numbers, so that each round is spread over the whole video. Rounds shrink: what the
# last one misses is little of the whole. Few parts have few rounds, or workers would wait for each other too often.
_MANY = ((2, 8), (0, 3, 5, 6, 9, 11), (1, 4, 7), (10,))
_SOME = ((0, 2), (1,))
_FREE = 2  # rounds of many parts that take what they take at one quality; all others are held to their bits


class CodingRound(NamedTuple):
    """Parts that are coded at once; with `chase` each is held to its bits.

    With `look` short ones may begin again after their first mini-GOP, where no round before shows what to expect.
    """

    parts: list[VideoPart]
    chase: bool
    look: bool = False


def rounds(parts: Sequence[VideoPart]) -> list[CodingRound]:
    """All parts: many of them in four rounds, some in two, and few in one."""
    if len(parts) >= 2 * _size(_MANY):
        return [CodingRound(some, number >= _FREE) for number, some in enumerate(_chosen(parts, _MANY))]
    if len(parts) >= 2 * _size(_SOME):
        return [CodingRound(some, True) for some in _chosen(parts, _SOME)]
    return [CodingRound(list(parts), chase=True, look=True)]


def _size(places: tuple[tuple[int, ...], ...]) -> int:
    return sum(map(len, places))


def _chosen(parts: Sequence[VideoPart], places: tuple[tuple[int, ...], ...]) -> list[list[VideoPart]]:
    return [[part for part in parts if part.number % _size(places) in some] for some in places]
