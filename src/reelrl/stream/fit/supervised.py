"""Classify rows with a small net; the net becomes a policy file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from reelrl.runs.policy_file import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Rows = npt.NDArray[np.float32]
    Labels = npt.NDArray[np.int64]

BATCH = 2048


def make_net(inputs: int, hidden: int, classes: int, seed: int) -> nn.Sequential:
    """Two hidden layers; the weights depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )


def cost_error(scores: Tensor, costs: Tensor) -> Tensor:
    """Squared error of scores that should be minus the costs, so that the highest score costs least."""
    return (scores + costs).square().mean()


def learn(
    net: nn.Sequential,
    rows: Rows,
    labels: npt.NDArray[Any],
    epochs: int,
    seed: int,
    loss_of: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy,
    rate: float = 1e-3,
) -> float:
    """Lower the loss over all rows, the learning rate falling to zero; returns the last epoch's mean."""
    rng = np.random.default_rng(seed)
    inputs, targets = torch.from_numpy(rows), torch.from_numpy(labels)
    optimiser = torch.optim.Adam(net.parameters(), rate)
    batches = -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=epochs * batches, pct_start=0.1)
    mean = 0.0
    for _ in range(epochs):
        total = 0.0
        for part in np.array_split(rng.permutation(len(rows)), batches):
            loss = loss_of(net(inputs[part]), targets[part])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(part)
        mean = total / len(rows)
    return mean


@torch.no_grad()
def loss_on(net: nn.Sequential, rows: Rows, labels: Labels) -> float:
    """Mean cross entropy."""
    return float(nn.functional.cross_entropy(net(torch.from_numpy(rows)), torch.from_numpy(labels)))


def as_policy(net: nn.Sequential, facts: dict[str, Any]) -> Policy:
    """The net as a file of ours holds it: one choice among its classes."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    layers = [(each.weight.detach().numpy().copy(), each.bias.detach().numpy().copy()) for each in linear]
    return Policy(layers, "relu", options=(linear[-1].out_features,), facts=facts)
