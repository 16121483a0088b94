"""How good answers about places are: average precision, F1 and calibration, with intervals over matches.

    counts = Counts.of(probabilities, truth, match, thresholds)       # of one head
    scores = counts.scores(weights)                                   # each [R], one per drawing of matches

Moments of one match are alike, so matches are what is drawn again: answers are counted per match once, and a drawing
is a weight per match. A macro score is the mean over places; places that hold nobody in all matches have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.report.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Floats = NDArray[np.float64]

METRICS = ("macro_ap", "macro_f1", "micro_f1", "macro_f1_at_half", "micro_f1_at_half", "calibration_error")
RESAMPLES = 1000
_RANKS = 200  # steps of the precision-recall curve
_BINS = 15  # of calibration, equally wide


@dataclass(frozen=True, eq=False)
class Counts:
    """What a head answered, counted for M matches and P places."""

    right: Floats
    """[M, P, ranks], moments with somebody there by the rank of the answer, the surest first; `wrong` without."""
    wrong: Floats
    tuned: Floats
    """[M, P, 3]: hits, false alarms and misses at the tuned thresholds."""
    at_half: Floats
    """The same at 0.5."""
    bins: Floats
    """[M, bins, 3]: answers, their sum, and how many of them were true."""

    @classmethod
    def of(
        cls, answers: NDArray[np.float32], truth: NDArray[np.bool_], match: NDArray[np.int64], thresholds: Floats
    ) -> Counts:
        """From answers and truth [N, P] of moments of matches [N], numbered from 0."""
        ranks = np.stack([_ranks(column) for column in answers.T], axis=1)
        bins = np.minimum((answers * _BINS).astype(int), _BINS - 1)
        parts = []
        for number in range(int(match.max()) + 1):
            of_match = match == number
            a, t, r, b = answers[of_match], truth[of_match], ranks[of_match], bins[of_match]
            right = np.stack([np.bincount(r[t[:, p], p], minlength=_RANKS) for p in range(t.shape[1])])
            wrong = np.stack([np.bincount(r[~t[:, p], p], minlength=_RANKS) for p in range(t.shape[1])])
            in_bins = [np.bincount(b.ravel(), values, _BINS) for values in (None, a.ravel(), t.ravel())]
            parts.append((right, wrong, _hits(a >= thresholds, t), _hits(a >= 0.5, t), np.stack(in_bins, -1)))
        return cls(*(np.stack(each).astype(np.float64) for each in zip(*parts, strict=True)))

    def scores(self, weights: Floats) -> dict[str, Floats]:
        """METRICS, each [R], of weights [R, M]."""
        right, wrong = (np.einsum("rm,mpk->rpk", weights, part, optimize=True) for part in (self.right, self.wrong))
        there = self.right.sum((0, 2)) > 0
        tuned, half, bins = (np.tensordot(weights, part, 1) for part in (self.tuned, self.at_half, self.bins))
        return {
            "macro_ap": _mean(average_precision_by_rank(right, wrong)[:, there]),
            "macro_f1": _mean(f1(tuned)[:, there]),
            "micro_f1": f1(tuned.sum(1)),
            "macro_f1_at_half": _mean(f1(half)[:, there]),
            "micro_f1_at_half": f1(half.sum(1)),
            "calibration_error": (np.abs(bins[..., 1] - bins[..., 2]).sum(1) / bins[..., 0].sum(1)),
        }

    def by_place(self) -> dict[str, Floats]:
        """Each place by itself, over all matches: [P]."""
        right, wrong, tuned = self.right.sum(0), self.wrong.sum(0), self.tuned.sum(0)
        share = right.sum(1) / (right.sum(1) + wrong.sum(1))
        return {"share": share, "ap": average_precision_by_rank(right, wrong), "f1": f1(tuned)}

    def reliability(self) -> list[tuple[float, float, int]]:
        """Of each bin that holds answers: their mean, how many came true, and their number."""
        return [(s / n, t / n, int(n)) for n, s, t in self.bins.sum(0) if n]


def average_precision(answers: NDArray[np.floating[Any]], truth: NDArray[np.bool_]) -> float:
    """Mean over the true ones of the share of true ones among all that rank as high; NaN where nothing is true.

    Equal answers have no order: they are accepted together.
    """
    order = np.argsort(-answers, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(answers[order]) != 0, np.True_))
    hits = np.cumsum(truth[order])[ends]
    if not hits[-1]:
        return float("nan")
    return float((np.diff(hits, prepend=0) * hits / (ends + 1)).sum() / hits[-1])


def mean_precision(answers: NDArray[np.floating[Any]], truth: NDArray[np.bool_]) -> float:
    """The mean over places [N, places] that are true at least once; 0 where none is."""
    each = [average_precision(column, true) for column, true in zip(answers.T, truth.T, strict=True) if true.any()]
    return float(np.mean(each)) if each else 0.0


def average_precision_by_rank(right: Floats, wrong: Floats) -> Floats:
    """The same from counts by rank [..., ranks], for many drawings of matches at once; NaN where nothing is true.

    Answers of one rank are accepted together.
    """
    hits, alarms = right.cumsum(-1), wrong.cumsum(-1)
    accepted = np.maximum(hits + alarms, 1e-12)
    total = hits[..., -1]
    with np.errstate(invalid="ignore"):
        return np.asarray((right * hits / accepted).sum(-1) / np.where(total > 0, total, np.nan))


def f1(counts: Floats) -> Floats:
    """From hits, false alarms and misses [..., 3]; 0 where there is nothing to find and nothing was said."""
    hits, alarms, misses = counts[..., 0], counts[..., 1], counts[..., 2]
    return np.asarray(2 * hits / np.maximum(2 * hits + alarms + misses, 1e-12))


def best_thresholds(answers: NDArray[np.float32], truth: NDArray[np.bool_]) -> Floats:
    """For each place the threshold with the best F1 on these moments; 0.5 where the place never holds anybody."""
    chosen = np.full(answers.shape[1], 0.5)
    for place, (column, true) in enumerate(zip(answers.T, truth.T, strict=True)):
        if not true.any():
            continue
        order = np.argsort(-column, kind="stable")
        hits = np.cumsum(true[order])
        scores = 2 * hits / (np.arange(1, len(order) + 1) + true.sum())
        # Only where the answer changes can a threshold lie.
        ends = np.flatnonzero(np.append(np.diff(column[order]) != 0, True))
        chosen[place] = column[order][ends[np.argmax(scores[ends])]]
    return chosen


def drawings(matches: int, seed: int = 0, resamples: int = RESAMPLES) -> Floats:
    """Weights [R + 1, matches]: first every match once, then matches drawn again with replacement."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(matches, np.full(matches, 1 / matches), size=resamples)
    return np.concatenate([np.ones((1, matches)), drawn.astype(np.float64)])


def over_seeds(runs: Sequence[Floats], seed: int = 1) -> Floats:
    """The mean [R + 1] over runs with different seeds, which are drawn again as well, all but in the first."""
    table = np.stack(runs)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(runs), size=(len(runs), table.shape[1]))
    drawn[:, 0] = np.arange(len(runs))
    mean: Floats = np.take_along_axis(table, drawn, axis=0).mean(0)
    return mean


def interval(values: Floats) -> Interval:
    """The first value, and 95 % of the others."""
    low, high = np.nanquantile(values[1:], [0.025, 0.975])
    return Interval(float(values[0]), float(low), float(high))


def summed(heads: Mapping[str, Floats]) -> Floats:
    """The mean of a metric over heads."""
    mean: Floats = np.mean(list(heads.values()), axis=0)
    return mean


def _ranks(column: NDArray[np.float32]) -> NDArray[np.int64]:
    """The surest answers get 0; equal answers always the same."""
    order = np.sort(column)
    share = np.searchsorted(order, column, side="right") / len(column)
    ranks: NDArray[np.int64] = np.minimum(((1 - share) * _RANKS).astype(np.int64), _RANKS - 1)
    return ranks


def _hits(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.stack([(said & true).sum(0), (said & ~true).sum(0), (~said & true).sum(0)], axis=-1)


def _mean(values: Floats) -> Floats:
    """Over the last axis, without what is missing in a drawing."""
    missing = np.isnan(values)
    return np.asarray(np.where(missing, 0, values).sum(-1) / np.maximum((~missing).sum(-1), 1))
