"""Muon for convolutions: momentum whose weight matrices are made orthogonal before the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from reelrl.see.optim.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# Newton-Schulz: an odd polynomial that pushes all singular values towards one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(Optimizer):
    """A kernel is a matrix of outputs by inputs; biases take the sign of their momentum."""

    def __init__(self, params: Iterable[Any], lr: float = 0.01, beta1: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # noqa: ARG002
        group = self.param_groups[0]
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            momentum = state_of(self, parameter, "momentum")
            momentum.lerp_(parameter.grad, 1.0 - group["beta1"])
            direction = orthogonal(momentum.flatten(1)).view_as(momentum) if momentum.dim() > 1 else momentum.sign()
            scale = momentum[0].numel() ** -0.5 if momentum.dim() > 1 else 0.1
            parameter.add_(direction, alpha=-group["lr"] * scale)


def orthogonal(matrix: Tensor) -> Tensor:
    """The nearest matrix with orthonormal rows or columns, roughly."""
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x: Tensor = wide / (wide.norm() + 1e-12)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x * min(matrix.shape) ** 0.5 * max(1.0, (matrix.shape[1] / matrix.shape[0]) ** 0.5)
    return x if matrix.shape[0] <= matrix.shape[1] else x.T
