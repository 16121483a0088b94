"""Which moments meet in a batch, and in whose views.

Views of other matches are told apart by anything: the hour of the match, who is alive. So a batch holds several moments
of each of its matches, and those are the negatives that teach. Moments of one match that are near in time show nearly
the same; they never meet.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.act.location.samples import Marks, Moments


def epoch_batches(
    moments: Moments, rng: np.random.Generator, *, matches: int, of_each: int, apart_rows: int
) -> list[NDArray[np.int64]]:
    """All moments once, in batches of up to `of_each` moments of each of up to `matches` matches, in a new order.

    Moments of a match in one batch are of one side, and at least `apart_rows` apart.
    """
    waiting: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
    for match, side in np.unique(np.stack([moments.match, moments.side]), axis=1).T:
        mine = np.flatnonzero((moments.match == match) & (moments.side == side))
        # Rows that leave the same remainder are at least `apart_rows` apart.
        remainder = moments.row[mine] % apart_rows
        for group in np.unique(remainder):
            order = rng.permutation(mine[remainder == group])
            waiting[int(match)] += [order[start : start + of_each] for start in range(0, len(order), of_each)]
    for chunks in waiting.values():
        rng.shuffle(chunks)
    batches: list[NDArray[np.int64]] = []
    while waiting:
        names = rng.permutation(sorted(waiting))
        parts = np.split(names, range(matches, len(names), matches))
        batches += [np.concatenate([waiting[name].pop() for name in part]) for part in parts]
        waiting = defaultdict(list, {name: chunks for name, chunks in waiting.items() if chunks})
    return batches


def random_views(present: Marks, rng: np.random.Generator, wanted: int | None = None) -> Marks:
    """Whose views [N, A] are used for an answer: `wanted` of those present, or all if they are fewer.

    None: one player's in half of the moments, else any number of them.
    """
    lots = np.where(present, rng.random(present.shape), 2.0)
    count = np.where(rng.random(len(present)) < 0.5, 1, rng.integers(1, present.sum(1) + 1))
    if wanted is not None:
        count = np.full(len(present), wanted)
    ranks = lots.argsort(1).argsort(1)
    return present & (ranks < count[:, None])
