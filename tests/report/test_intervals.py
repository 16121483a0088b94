"""Intervals over few seeds."""

from __future__ import annotations

import numpy as np
import pytest

from reelrl.errors import ConfigError
from reelrl.report.intervals import mean_interval, seeds_interval


@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
def test_few_seeds_are_covered_as_often_as_said(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    found = [seeds_interval(rng.normal(3.0, 2.0, seeds)) for _ in range(2000)]
    assert np.mean([low <= 3.0 <= high for _, low, high in found]) == pytest.approx(0.95, abs=0.015)


def test_a_bootstrap_of_three_seeds_is_too_sure() -> None:
    values = np.array([1.0, 2.0, 4.0])
    student, bootstrap = seeds_interval(values), mean_interval(values)
    assert student.mean == bootstrap.mean
    assert student.low < bootstrap.low
    assert student.high > bootstrap.high


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ConfigError, match="two finite numbers or more"):
        seeds_interval(np.array([1.0]))
