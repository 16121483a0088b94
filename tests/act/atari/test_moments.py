"""What is scaled by the stream: equal to the mean, variance and discounted sums of all that was seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.act.atari.moments import RewardScale, RunningMoments

VALUES = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=30)


@given(values=VALUES)
@settings(deadline=None, max_examples=25)
def test_running_moments_are_those_of_all_values(values: list[float]) -> None:
    moments = RunningMoments(1, (2,))
    for value in values:
        moments.add(torch.tensor([[value, -2 * value]]))
        moments.add(torch.tensor([[1e6, 1e6]]), torch.tensor([0.0]))  # counts for nothing
    seen = np.array(values, np.float64)
    assert moments.mean[0].numpy() == pytest.approx(np.array([seen.mean(), -2 * seen.mean()]), abs=1e-3)
    spread = seen.std(ddof=1) if len(values) > 1 else 1.0
    expected = np.array([spread, 2 * spread if len(values) > 1 else 1.0])
    assert moments.deviation[0].numpy() == pytest.approx(expected, rel=1e-3, abs=2e-3)


def test_what_never_changes_stays_zero_and_the_first_value_is_the_mean() -> None:
    moments = RunningMoments(1, (1,))
    for _ in range(5):
        moments.add(torch.tensor([[3.0]]))
        assert moments.normalise(torch.tensor([[3.0]])).item() == 0


@given(episodes=st.lists(VALUES, min_size=1, max_size=4))
@settings(deadline=None, max_examples=15)
def test_rewards_are_divided_by_the_deviation_of_their_discounted_sums(episodes: list[list[float]]) -> None:
    scale, gamma = RewardScale(1, 0.9), 0.9
    sums: list[float] = []
    for rewards in episodes:
        scale(torch.tensor([0.0]), torch.tensor([1.0]))
        total = 0.0
        for reward in rewards:
            total = gamma * total + reward
            sums.append(total)
            found = scale(torch.tensor([reward]), torch.tensor([0.0])).item()
            deviation = np.sqrt(np.var(sums, ddof=1) + 1e-8) if len(sums) > 1 else 1.0
            assert found == pytest.approx(reward / deviation, rel=1e-2, abs=1e-3) or deviation < 1e-2
