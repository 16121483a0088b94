"""Optimisers for one sample at a time: the papers' formulas, the law ObGD promises, and where that law ends."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from reelrl.errors import ConfigError
from reelrl.see.one_net import descend
from reelrl.see.optim import AdaptiveObGD, IntentionalSGD, ObGD, make_optimiser
from reelrl.see.optim.muon import orthogonal
from reelrl.see.settings import RATES, OptimiserSettings


def plain_obgd(weights: list[Tensor], traces: list[Tensor], gradients: list[Tensor], delta: float, reset: bool) -> None:
    """The paper, line by line, weight by weight."""
    lr, gamma, lamda, kappa = 1.0, 0.99, 0.8, 2.0
    z_sum = 0.0
    for trace, gradient in zip(traces, gradients, strict=True):
        if reset:
            trace.zero_()
        trace.mul_(gamma * lamda).add_(gradient)
        z_sum += trace.abs().sum().item()
    bound = lr * kappa * max(abs(delta), 1.0) * z_sum
    step = lr / max(bound, 1.0)
    for weight, trace in zip(weights, traces, strict=True):
        weight.sub_(step * delta * trace)


def small_network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))


def test_obgd_is_the_paper_line_by_line_over_100_steps() -> None:
    network, chance = small_network(0), torch.Generator().manual_seed(1)
    optimiser = ObGD(network.parameters())
    weights = [p.detach().clone() for p in network.parameters()]
    traces = [torch.zeros_like(w) for w in weights]
    for i in range(100):
        error = (network(torch.randn(6, generator=chance)) - torch.randn(1, generator=chance)).abs().sum()
        network.zero_grad()
        error.backward()
        plain_obgd(weights, traces, [p.grad for p in network.parameters()], error.item(), i % 30 == 0)  # type: ignore[misc]
        optimiser.step(error.detach(), reset=float(i % 30 == 0))
        for ours, theirs in zip(network.parameters(), weights, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


@given(
    inputs=st.lists(st.floats(-2, 2), min_size=1, max_size=8),
    target=st.floats(-100, 100),
    start=st.floats(-10, 10),
    lr=st.floats(0.01, 100),
)
@settings(max_examples=200, deadline=None)
def test_one_step_does_not_flip_the_error_of_a_linear_model(
    inputs: list[float], target: float, start: float, lr: float
) -> None:
    """Inputs up to kappa, no trace: the error shrinks or stays, and keeps its sign."""
    x = torch.tensor(inputs, dtype=torch.float64)
    weights = nn.Parameter(torch.full_like(x, start))
    before = target - weights.detach() @ x
    (-(weights @ x) * before.sign()).backward()  # type: ignore[no-untyped-call]  # the gradient of |error|
    ObGD([weights], lr=lr, lamda=0.0, kappa=2.0).step(before.abs())
    after = target - weights.detach() @ x
    assert after * before.sign() >= -1e-9 * max(1.0, abs(float(before)))
    assert after.abs() <= before.abs() + 1e-9


def test_the_law_ends_where_inputs_exceed_kappa() -> None:
    x = torch.tensor([10.0])
    weights = nn.Parameter(torch.zeros(1))
    (-(weights @ x)).backward()  # type: ignore[no-untyped-call]
    ObGD([weights], lamda=0.0, kappa=2.0).step(1.0)
    assert 1.0 - float(weights.detach() @ x) == pytest.approx(-4.0)


def test_the_law_ends_where_a_trace_remembers_the_opposite() -> None:
    weights = nn.Parameter(torch.zeros(1))
    optimiser = ObGD([weights], lamda=1.0, gamma=1.0)
    for gradient, delta in ((5.0, 0.0), (-1.0, 1.0)):
        weights.grad = torch.tensor([gradient])
        optimiser.step(delta)
    # Input 1 and target 1: the error was 1, and the memory of other inputs made it larger.
    assert 1.0 - float(weights.detach()) == pytest.approx(1.5)


def test_lr_cancels_where_the_bound_holds() -> None:
    moved = []
    for lr in (0.5, 1.0, 50.0):
        weights = nn.Parameter(torch.zeros(3))
        weights.grad = torch.tensor([3.0, -1.0, 2.0])
        ObGD([weights], lr=lr).step(1.0)
        moved.append(weights.detach())
    assert torch.allclose(moved[0], moved[1])
    assert torch.allclose(moved[1], moved[2])


def test_adaptive_obgd_does_not_care_about_the_scale_of_a_weights_gradient() -> None:
    moved = []
    for scale in (1.0, 1000.0):
        weights = nn.Parameter(torch.zeros(2))
        optimiser = AdaptiveObGD([weights])
        for _ in range(10):
            weights.grad = torch.tensor([1.0, -scale])
            optimiser.step(1.0)
        moved.append(weights.detach())
    assert torch.allclose(moved[0], moved[1], rtol=1e-4)


@given(share=st.floats(0.05, 1.0), slope=st.floats(0.1, 10.0))
@settings(max_examples=50, deadline=None)
def test_an_intentional_step_removes_the_share_it_was_asked_for(share: float, slope: float) -> None:
    """Exactly so on a loss that is linear along the step."""
    weights = nn.Parameter(torch.tensor([4.0 / slope], dtype=torch.float64))
    loss = (slope * weights).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    IntentionalSGD([weights], lr=share).step(loss.detach())
    assert float(slope * weights.detach()) == pytest.approx(4.0 * (1 - share), abs=1e-4)


def test_an_odd_frame_asks_an_intentional_step_for_little_more_than_its_neighbours() -> None:
    weights = nn.Parameter(torch.zeros(1))
    optimiser = IntentionalSGD([weights], lr=0.1, cap=2.0)
    moves = []
    for loss in (1.0, 1.0, 1.0, 100.0):
        weights.grad, before = torch.ones(1), float(weights.detach())
        optimiser.step(torch.tensor(loss))
        moves.append(before - float(weights.detach()))
    assert moves[-1] == pytest.approx(2 * moves[-2], rel=0.1)


def test_newton_schulz_makes_singular_values_alike() -> None:
    matrix = torch.randn(8, 24, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert values.max() / values.min() < 2.0 < torch.linalg.svdvals(matrix).max() / torch.linalg.svdvals(matrix).min()


@pytest.mark.parametrize("name", sorted(RATES))
def test_every_optimiser_lowers_a_simple_loss(name: str) -> None:
    network = small_network(2)
    chosen = OptimiserSettings(name=name)  # type: ignore[arg-type]
    optimiser = make_optimiser(list(network.parameters()), chosen)
    x, losses = torch.ones(6), []
    for _ in range(150):
        loss = (network(x) - 0.7).square().sum() + 1e-3
        network.zero_grad()
        loss.backward()
        descend(optimiser, chosen, loss.detach(), torch.zeros(()))
        losses.append(loss.item())
    assert min(losses[-10:]) < 0.5 * losses[0]


def test_gradients_are_clipped_before_they_are_used() -> None:
    weights = nn.Parameter(torch.zeros(4))
    weights.grad = torch.full((4,), 50.0)
    chosen = OptimiserSettings(name="sgd", lr=1.0, beta1=0.0, clip_norm=1.0)
    norm = descend(make_optimiser([weights], chosen), chosen, torch.ones(()), torch.zeros(()))
    assert float(norm) == pytest.approx(100.0)
    assert float(weights.detach().norm()) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(("field", "value"), [("lr", -1.0), ("gamma", 1.5), ("beta2", 1.0), ("kappa", -1.0)])
def test_numbers_that_cannot_be_right_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        OptimiserSettings(**{field: value})  # type: ignore[arg-type]
