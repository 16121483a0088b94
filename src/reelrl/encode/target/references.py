"""Two searchers that others have, written from their descriptions, to be measured against.

interpolated  as ab-av1's `crf-search` describes itself: an interpolating binary search over CRF on sample encodes
four_probes   as Av1an's target quality documents itself: per scene, at most four probes, the CRF interpolated

Both ask for scores of encodes with the preset that is used in the end; scenes here are shorter than their samples, so
a probe is the whole scene with every frame scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.model import STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[float], float]

LOW, HIGH = 10.0, 63.0
_FIRST_TOLERANCE = 0.1  # above the target; doubles with each probe
_PROBES, _NEAR = 4, 0.01  # of the target


def interpolated(target: float, ask: Ask) -> tuple[float, int]:
    """(the highest CRF found that scores at least the target, probes)."""
    scores: dict[float, float] = {}
    crf, tolerance = _step((LOW + HIGH) / 2), _FIRST_TOLERANCE
    while True:
        scores[crf] = ask(crf)
        good = [c for c, score in scores.items() if score >= target]
        bad = [c for c, score in scores.items() if score < target]
        if scores[crf] >= target and scores[crf] <= target + tolerance:
            return crf, len(scores)
        best, worst = max(good, default=None), min(bad, default=None)
        if best is None:
            following = LOW if len(scores) > 1 else _step((LOW + crf) / 2)
        elif worst is None:
            following = HIGH if len(scores) > 1 else _step((HIGH + crf) / 2)
        elif worst - best <= STEP:
            return best, len(scores)
        else:
            share = (scores[best] - target) / (scores[best] - scores[worst])
            following = min(max(_step(best + share * (worst - best)), best + STEP), worst - STEP)
        if following in scores:
            return (best if best is not None else LOW), len(scores)
        crf, tolerance = following, 2 * tolerance


def four_probes(target: float, ask: Ask) -> tuple[float, int]:
    """(the CRF that is interpolated to score the target, probes)."""
    scores: dict[float, float] = {}
    low, high = LOW, HIGH
    while len(scores) < _PROBES and low <= high:
        crf = _step((low + high) / 2) if len(scores) < 2 else _inverse(scores, target, low, high)
        if crf in scores:
            break
        scores[crf] = ask(crf)
        if abs(scores[crf] - target) <= _NEAR * target / 2:
            return crf, len(scores)
        if scores[crf] > target:
            low = crf + STEP
        else:
            high = crf - STEP
    return _inverse(scores, target, LOW, HIGH), len(scores)


def _inverse(scores: dict[float, float], target: float, low: float, high: float) -> float:
    """The CRF at the target on a line through the two nearest probes, within bounds."""
    if len(scores) < 2:
        return next(iter(scores))
    below = max((c for c, score in scores.items() if score >= target), default=None)
    above = min((c for c, score in scores.items() if score < target), default=None)
    if below is None or above is None:
        first, second = sorted(scores, key=lambda c: abs(scores[c] - target))[:2]
    else:
        first, second = below, above
    slope = (scores[second] - scores[first]) / (second - first)
    crf = first + (target - scores[first]) / slope if slope < 0 else (first + second) / 2
    return float(np.clip(_step(crf), low, high))


def _step(crf: float) -> float:
    return round(crf / STEP) * STEP
