"""Wilcoxon's test, as the verdicts use it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon  # type: ignore[import-untyped]

from reelrl.report.verdicts import _signed_rank_test


@given(st.lists(st.integers(-40, 40), min_size=1, max_size=9))
def test_it_counts_every_throw_of_signs(values: list[int]) -> None:
    """The slow twin throws all signs there are; values may share a rank."""
    kept = [value for value in values if value]
    ranks = [(sum(abs(b) < abs(a) for b in kept) + sum(abs(b) <= abs(a) for b in kept) + 1) / 2 for a in kept]
    throws = [
        sum(r for r, up in zip(ranks, ups, strict=True) if up) for ups in itertools.product((0, 1), repeat=len(kept))
    ]
    reached = sum(rank for rank, value in zip(ranks, kept, strict=True) if value > 0)
    lower, upper = (
        sum(test) / len(throws) for test in ([t <= reached for t in throws], [t >= reached for t in throws])
    )
    assert _signed_rank_test(np.array(values, np.float64)) == pytest.approx(min(1, 2 * min(lower, upper)), abs=1e-12)


@given(st.lists(st.floats(-9, 9).filter(lambda v: abs(v) > 1e-6), min_size=2, max_size=40, unique_by=abs))
def test_without_ties_it_is_what_scipy_says(values: list[float]) -> None:
    assert _signed_rank_test(np.array(values)) == pytest.approx(wilcoxon(values, method="exact").pvalue, abs=1e-9)


def test_no_difference_is_no_evidence() -> None:
    assert _signed_rank_test(np.zeros(5)) == 1.0
