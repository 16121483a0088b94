"""What a view is asked: which places hold a mate, and which an enemy, now and some seconds ahead.

    asked = Questions.of(data, moments, plan)
    asked.names                # ("mates now", "mates in 2 s", ..., "enemies in 10 s")
    asked.truth[asked.known]   # [M, questions, places]

Positions are read here and go no further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.location.samples import Marks, occupied, places_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.act.location.samples import Moments
    from reelrl.act.recording.labels import Labels
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches

AHEAD_S = (0.0, 2.0, 5.0, 10.0)
WHO = ("mates", "enemies")
NAMES = tuple(f"{who} {f'in {ahead:g} s' if ahead else 'now'}" for who in WHO for ahead in AHEAD_S)


@dataclass(frozen=True, eq=False)
class Questions:
    """Of N moments with A agents each: the answers from each agent's view."""

    truth: Marks
    """[N, A, questions, places]"""
    known: Marks
    """[N, A]: who is there to see, in moments whose future was recorded as far as it is asked about."""

    @classmethod
    def of(cls, data: Matches, moments: Moments, plan: MapPlan) -> Questions:
        agents = moments.present.shape[1]
        truth = np.zeros((len(moments), agents, len(NAMES), len(plan.places)), bool)
        known = moments.present.copy()
        for number, info in enumerate(moments.matches):
            of_match = np.flatnonzero(moments.match == number)
            labels = data.match(info.id).labels
            for side in np.unique(moments.side[of_match]):
                chosen = of_match[moments.side[of_match] == side]
                truth[chosen, : info.players], lasts = _answers(
                    labels, moments.row[chosen], int(side), plan, data.rows_per_second
                )
                known[chosen] &= lasts[:, None]
        return cls(truth, known)


def _answers(
    labels: Labels, rows: NDArray[np.int64], side: int, plan: MapPlan, rows_per_second: float
) -> tuple[Marks, Marks]:
    """[rows, players, questions, places], and whether the match lasts long enough after each row."""
    ours = labels.team == side
    players = places_of(plan, labels.position, labels.alive)
    enemies = np.concatenate(
        [places_of(plan, labels.enemy_position, labels.enemy_alive), np.where(ours, -1, players)], axis=1
    )
    mates = np.where(ours, players, -1)
    count, places = players.shape[1], len(plan.places)
    others = np.where(np.eye(count, dtype=bool), -1, mates[:, None])  # [rows, who watches, who is where]
    by_row = {"mates": occupied(others, places), "enemies": occupied(enemies, places)[:, None].repeat(count, 1)}
    steps = [round(ahead * rows_per_second) for ahead in AHEAD_S]
    later = np.minimum(rows + np.array(steps)[:, None], len(labels) - 1)
    answers = np.stack([by_row[who][then] for who in WHO for then in later], axis=2)
    return answers, rows + max(steps) < len(labels)


def labelled(count: int, share: float, seed: int) -> NDArray[np.int64]:
    """Numbers of the moments, of so many, that have labels: a larger share has those of a smaller one, and more."""
    order = np.random.default_rng([seed, 20]).permutation(count)
    return np.sort(order[: max(1, round(share * count))])
