"""Laws of the model by which docs/explanation/scale.md reckons: between the least that is possible and one core."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists


@pytest.fixture(scope="module")
def model() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    try:
        import _cluster_model
    finally:
        sys.path.pop(0)
    return _cluster_model.ClusterModel


@given(tasks=lists(floats(0.1, 100), min_size=1, max_size=30), cores=integers(1, 8))
def test_no_schedule_beats_its_bounds(model: Any, tasks: list[float], cores: int) -> None:
    wall_s = model(cores).wall_s(tasks)
    assert wall_s >= max(max(tasks), sum(tasks) / cores) - 1e-6
    # Graham: a list schedule is never twice as long as the best one.
    assert wall_s <= sum(tasks) / cores + max(tasks) + 1e-6


@given(tasks=lists(floats(0.1, 100), min_size=1, max_size=20))
def test_one_core_does_one_after_the_other(model: Any, tasks: list[float]) -> None:
    assert model(1, overhead_s=0.5).wall_s(tasks) == pytest.approx(sum(tasks) + 0.5 * len(tasks))


def test_what_delays_makes_it_longer_and_a_cache_shorter(model: Any) -> None:
    tasks = [10.0] * 2000
    plain = model(8).wall_s(tasks)
    assert plain == 2500
    assert model(8, straggler_share=0.1).wall_s(tasks) == pytest.approx(2500 * 1.2, rel=0.05)
    assert model(8, failures_per_h=6, restart_s=60).wall_s(tasks) == pytest.approx(2500 * 1.109, rel=0.05)
    assert model(8, cache_hits=0.5).wall_s(tasks) == pytest.approx(1250, rel=0.1)
    assert model(8, cache_hits=1.0, overhead_s=0.1).wall_s(tasks) == pytest.approx(25)
