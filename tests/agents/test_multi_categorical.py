"""The batched distribution is Stable-Baselines3's own, faster."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.policies import ActorCriticPolicy

from reelrl.agents.multi_categorical import BatchedMultiCategorical, BatchedPolicy

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def both(sizes: list[int], batch: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits in double precision, where rounding cannot hide a difference, and actions."""
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(scale=3.0, size=(batch, sum(sizes))))
    actions = torch.from_numpy(rng.integers(0, sizes, size=(batch, len(sizes))))
    return logits, actions


@settings(max_examples=60, deadline=None)
@given(sizes=SHAPES, batch=st.integers(1, 5), seed=st.integers(0, 1000))
def test_probabilities_entropy_and_mode_are_those_of_the_stock_distribution(
    sizes: list[int], batch: int, seed: int
) -> None:
    logits, actions = both(sizes, batch, seed)
    stock = MultiCategoricalDistribution(sizes).proba_distribution(logits)
    ours = BatchedMultiCategorical(sizes).proba_distribution(logits)
    torch.testing.assert_close(ours.log_prob(actions), stock.log_prob(actions), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.entropy(), stock.entropy(), rtol=1e-12, atol=1e-12)
    assert torch.equal(ours.mode(), stock.mode())
    assert ours.sample().shape == stock.sample().shape


@pytest.mark.parametrize("sizes", [[7] * 6, [2, 5, 3]])
def test_gradients_are_those_of_the_stock_distribution(sizes: list[int]) -> None:
    logits, actions = both(sizes, 8, 0)
    grads = []
    for kind in (MultiCategoricalDistribution, BatchedMultiCategorical):
        mine = logits.clone().requires_grad_()
        made = kind(sizes).proba_distribution(mine)
        (made.log_prob(actions).sum() + 0.3 * made.entropy().sum()).backward()
        grads.append(mine.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("sizes", [[3, 3], [2, 4]])
def test_samples_follow_the_same_law_jointly(sizes: list[int]) -> None:
    """Shares of whole actions, not only of each choice: choices must be independent."""
    torch.manual_seed(0)
    logits = both(sizes, 1, 1)[0].repeat(40_000, 1)
    drawn = BatchedMultiCategorical(sizes).proba_distribution(logits).sample()
    stock = MultiCategoricalDistribution(sizes).proba_distribution(logits[:1])
    for first in range(sizes[0]):
        for second in range(sizes[1]):
            share = float(((drawn[:, 0] == first) & (drawn[:, 1] == second)).double().mean())
            law = float(stock.log_prob(torch.tensor([[first, second]])).exp())
            assert share == pytest.approx(law, abs=4 * (law * (1 - law) / 40_000) ** 0.5 + 1e-9)


def test_policies_exchange_weights_with_stock_policies() -> None:
    observations, actions = spaces.Box(-1, 1, (5,), np.float32), spaces.MultiDiscrete([7] * 4)
    torch.manual_seed(1)
    stock = ActorCriticPolicy(observations, actions, lambda _: 1e-3)
    ours = BatchedPolicy(observations, actions, lambda _: 1e-3)
    ours.load_state_dict(stock.state_dict())
    batch, chosen = torch.rand(6, 5), torch.randint(0, 7, (6, 4))
    for mine, theirs in zip(ours.evaluate_actions(batch, chosen), stock.evaluate_actions(batch, chosen), strict=True):
        torch.testing.assert_close(mine, theirs)
    look = np.ones(5, np.float32)
    assert np.array_equal(ours.predict(look, deterministic=True)[0], stock.predict(look, deterministic=True)[0])


def test_other_action_spaces_keep_their_own_distribution() -> None:
    observations = spaces.Box(-1, 1, (5,), np.float32)
    policy = BatchedPolicy(observations, spaces.Box(-1, 1, (2,), np.float32), lambda _: 1e-3)
    assert not isinstance(policy.action_dist, MultiCategoricalDistribution)
