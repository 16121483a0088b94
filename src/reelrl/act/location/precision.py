"""Average precision: how well true ones are ranked before the others, without a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
