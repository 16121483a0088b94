"""IntentionalSGD: ask for a share of the loss to go, and solve for the step that does it.

To first order a step s along -D g lowers the loss by s * g'Dg, so s = eta * loss / g'Dg lowers it by the share eta. D
is RMSProp's diagonal. A loss far above its running mean (a flash, a cut) is capped, so that one odd frame asks for no
more than its neighbours do. After Sharifnassab et al. 2026, without traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from reelrl.see.optim.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class IntentionalSGD(Optimizer):
    """`step(loss)` after the gradients are there; `lr` is the share of the loss that one step aims to remove."""

    def __init__(
        self, params: Iterable[Any], lr: float = 0.5, beta2: float = 0.999, eps: float = 1e-8, cap: float = 2.0
    ) -> None:
        super().__init__(params, {"lr": lr, "beta2": beta2, "eps": eps, "cap": cap})

    @torch.no_grad()
    def step(self, loss: Any, reset: Tensor | float = 0.0) -> None:  # type: ignore[override]  # noqa: ARG002
        group = self.param_groups[0]
        beta2 = group["beta2"]
        params = [p for p in group["params"] if p.grad is not None]
        gradients = [p.grad for p in params]
        squares = [state_of(self, p, "square") for p in params]
        count = state_of(self, params[0], "count", scalar=True).add_(1.0)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - beta2)
        sizes = torch._foreach_sqrt(torch._foreach_div(squares, 1.0 - beta2**count))
        torch._foreach_add_(sizes, group["eps"])
        directions = torch._foreach_div(gradients, sizes)
        slope = torch.stack([(g * d).sum() for g, d in zip(gradients, directions, strict=True)]).sum()
        share = group["lr"] * self._capped(torch.as_tensor(loss, device=params[0].device), params[0])
        torch._foreach_add_(params, torch._foreach_mul(directions, -share / slope.clamp(min=1e-12)))

    def _capped(self, loss: Tensor, first: Tensor) -> Tensor:
        """The loss, at most `cap` times its running mean, which learns from the capped loss."""
        group = self.param_groups[0]
        mean = state_of(self, first, "loss_mean", scalar=True)
        started = (mean > 0).to(loss.dtype)
        capped = torch.where(mean > 0, loss.minimum(group["cap"] * mean), loss)
        mean.copy_(started * (0.99 * mean + 0.01 * capped) + (1.0 - started) * capped)
        return capped
