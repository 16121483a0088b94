"""Optimisers for one sample at a time, behind one call: `descend(optimiser, settings, loss, reset)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reelrl.see.optim.intentional import IntentionalSGD
from reelrl.see.optim.muon import Muon
from reelrl.see.optim.obgd import AdaptiveObGD, ObGD

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from reelrl.see.settings import OptimiserSettings

__all__ = ["AdaptiveObGD", "IntentionalSGD", "Muon", "ObGD", "descend", "make_optimiser"]


def make_optimiser(parameters: list[torch.nn.Parameter], settings: OptimiserSettings) -> Optimizer:
    """The optimiser that the settings name; on a GPU none of them waits for the host."""
    lr, betas, decay = settings.rate, (settings.beta1, settings.size_memory), settings.weight_decay
    trace = {"gamma": settings.gamma, "lamda": settings.lamda, "kappa": settings.kappa}
    on_gpu: dict[str, Any] = {"capturable": parameters[0].is_cuda}
    match settings.name:
        case "obgd":
            return ObGD(parameters, lr, **trace)
        case "adaptive-obgd":
            return AdaptiveObGD(parameters, lr, **trace, beta2=settings.size_memory)
        case "intentional":
            return IntentionalSGD(parameters, lr, settings.size_memory)
        case "adam":
            return torch.optim.Adam(parameters, lr, betas, weight_decay=decay, fused=True, **on_gpu)
        case "adamw":
            return torch.optim.AdamW(parameters, lr, betas, weight_decay=decay, fused=True, **on_gpu)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, lr, settings.size_memory, weight_decay=decay, **on_gpu)
        case "sgd":
            return torch.optim.SGD(parameters, lr, settings.beta1, weight_decay=decay, fused=True)
        case "muon":
            return Muon(parameters, lr, settings.beta1)


@torch.no_grad()
def descend(optimiser: Optimizer, settings: OptimiserSettings, loss: Tensor, reset: Tensor) -> Tensor:
    """One step down `loss`, whose gradients are in place. Returns the gradient's norm before it was clipped."""
    parameters = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    gradients = [p.grad for p in parameters]
    norm: Tensor = torch.stack(torch._foreach_norm(gradients)).norm()
    if settings.clip_norm > 0:
        torch._foreach_mul_(gradients, (settings.clip_norm / (norm + 1e-6)).clamp(max=1.0))
    match optimiser:
        case ObGD():
            optimiser.step(_as_error(gradients, settings.error, loss), reset)
        case IntentionalSGD():
            optimiser.step(loss, reset)
        case _:
            optimiser.step()
    return norm


def _as_error(gradients: list[Tensor], error: str, loss: Tensor) -> Tensor:
    """The scalar that ObGD shall bring to zero; the gradients become that scalar's."""
    if error == "one":
        return torch.ones_like(loss)
    if error == "loss":
        return loss
    root = loss.sqrt()
    torch._foreach_mul_(gradients, 0.5 / root.clamp(min=1e-6))
    return root
