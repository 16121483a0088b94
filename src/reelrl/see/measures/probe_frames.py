"""Which frames a probe is fitted on, chosen by and tested on: whole episodes that no model saw go to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from reelrl.content.feeds.kinds import Shot

T = TypeVar("T")

FIT, CHOOSE, TEST = 0, 1, 2
LEAST = 80
_PARTS = (FIT, TEST, FIT, CHOOSE, FIT, FIT, TEST, FIT, CHOOSE, FIT)
"""Of ten episodes six are to fit, two to choose, two to test."""


def split_frames(
    shots: Iterable[tuple[Shot, T]], count: int, every: int, usable: Callable[[T], bool] = lambda _: True
) -> Iterator[tuple[Shot, T, int]]:
    """Every `every`-th picture that is usable, with its part, until all parts are full.

    `count` frames to fit on, an eighth as many to choose by and a quarter to test on.
    """
    if count < LEAST:
        raise ConfigError(f"a probe fitted on {count} frames would be tested on {count // 4}; give {LEAST} or more")
    left = {FIT: count, CHOOSE: count // 8, TEST: count // 4}
    for number, (shot, label) in enumerate(shots):
        part = _PARTS[shot.position.episode % len(_PARTS)]
        if number % every == 0 and left[part] and usable(label):
            left[part] -= 1
            yield shot, label, part
            if not any(left.values()):
                return
