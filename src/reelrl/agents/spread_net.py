"""A small net that learns a number and how sure it is of it: mean and spread of a bell curve, by likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOG_SPREADS = (-3.5, 0.7)
_FAR = 6.0  # spreads: what lies further off teaches nothing


@dataclass(frozen=True)
class SpreadNetFit:
    """How it learns; `width` is that of both hidden layers."""

    epochs: int = 25
    width: int = 48
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4


def fit_spread_net(
    examples: tuple[NDArray[np.float32], NDArray[np.float32]],
    held_out: tuple[NDArray[np.float32], NDArray[np.float32]],
    settings: SpreadNetFit,
    seed: int,
) -> tuple[NDArray[np.float32], ...]:
    """Weights and biases, layer by layer, of the epoch that is best on examples held out.

    Examples are inputs [rows, n] and what is wanted [rows]. The net gives the mean and the logarithm of the spread.
    """
    torch.manual_seed(seed)
    (x, y), (x_held, y_held) = (tuple(map(torch.from_numpy, part)) for part in (examples, held_out))
    width = settings.width
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 2),
    )
    optimiser = torch.optim.AdamW(net.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-len(x) // settings.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    best, best_state = np.inf, net.state_dict()
    for _ in range(settings.epochs):
        for batch in torch.split(torch.randperm(len(x)), settings.batch):
            optimiser.zero_grad()
            _likelihood(net(x[batch]), y[batch]).backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            loss = float(_likelihood(net(x_held), y_held))
        if loss < best:
            best, best_state = loss, {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(best_state)
    return tuple(np.ascontiguousarray(tensor.detach().numpy().T) for tensor in net.parameters())


def _likelihood(out: Any, wanted: Any) -> Any:
    """Mean negative log-likelihood."""
    log_spread = out[:, 1].clamp(*_LOG_SPREADS)
    off = ((wanted - out[:, 0]) / log_spread.exp()).clamp(-_FAR, _FAR)
    return (0.5 * off**2 + log_spread).mean()
