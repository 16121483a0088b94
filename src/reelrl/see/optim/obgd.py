"""ObGD: online gradient descent whose step is too short to overshoot (Elsayed, Vasan and Mahmood 2024).

With an error delta >= 0 and the gradient of that error in each `.grad`:

    z   <- gamma * lamda * z + grad
    M    = lr * kappa * max(delta, 1) * |z|_1             over all parameters together
    w   <- w - lr / max(M, 1) * delta * z

The bound is exact for a linear prediction whose inputs do not exceed kappa; for a deep network it is only a caution.
|z|_1 stays on the device: a step never waits for the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from reelrl.see.optim.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class ObGD(Optimizer):
    """One trace and one bound over all parameters; `step(delta, reset)` after the gradients are there."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        gamma: float = 0.99,
        lamda: float = 0.8,
        kappa: float = 2.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "gamma": gamma, "lamda": lamda, "kappa": kappa})

    @torch.no_grad()
    def step(self, delta: Any = 1.0, reset: Tensor | float = 0.0) -> None:  # type: ignore[override]
        """Reduce the error `delta`; `reset` = 1 forgets the traces first, as at the start of an episode."""
        group = self.param_groups[0]
        params = [p for p in group["params"] if p.grad is not None]
        traces = [state_of(self, p, "trace") for p in params]
        torch._foreach_mul_(
            traces, (1.0 - torch.as_tensor(reset, device=params[0].device)) * group["gamma"] * group["lamda"]
        )
        torch._foreach_add_(traces, [p.grad for p in params])
        delta = torch.as_tensor(delta, device=params[0].device)
        directions = self._directions(params, traces, delta)
        size = torch.stack(torch._foreach_norm(directions, 1)).sum()
        bound = group["lr"] * group["kappa"] * delta.abs().clamp(min=1.0) * size
        step = -group["lr"] * delta / bound.clamp(min=1.0)
        torch._foreach_add_(params, torch._foreach_mul(directions, step))

    def _directions(self, params: list[Tensor], traces: list[Tensor], delta: Tensor) -> list[Tensor]:  # noqa: ARG002
        return traces


class AdaptiveObGD(ObGD):
    """ObGD whose trace is divided, per weight, by the running size of delta * trace, as Adam does."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        gamma: float = 0.99,
        lamda: float = 0.8,
        kappa: float = 2.0,
        beta2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, gamma, lamda, kappa)
        self.beta2, self.eps = beta2, eps

    def _directions(self, params: list[Tensor], traces: list[Tensor], delta: Tensor) -> list[Tensor]:
        squares = [state_of(self, p, "square") for p in params]
        count = state_of(self, params[0], "count", scalar=True)
        count.add_(1.0)
        torch._foreach_mul_(squares, self.beta2)
        weighted = torch._foreach_mul(traces, delta)
        torch._foreach_addcmul_(squares, weighted, weighted, 1.0 - self.beta2)
        sizes = torch._foreach_sqrt(torch._foreach_div(squares, 1.0 - self.beta2**count))
        torch._foreach_add_(sizes, self.eps)
        return list(torch._foreach_div(traces, sizes))
