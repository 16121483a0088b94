"""Optimisers for one sample at a time, made by name; `see.one_net.descend` takes one step with any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from reelrl.see.optim.intentional import IntentionalSGD
from reelrl.see.optim.muon import Muon
from reelrl.see.optim.obgd import AdaptiveObGD, ObGD

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from reelrl.see.settings import OptimiserSettings

__all__ = ["AdaptiveObGD", "IntentionalSGD", "Muon", "ObGD", "make_optimiser"]


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
