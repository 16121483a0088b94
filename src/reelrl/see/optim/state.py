"""What an optimiser remembers of a parameter: tensors on its device, made when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.optim import Optimizer


def state_of(optimiser: Optimizer, parameter: Tensor, name: str, scalar: bool = False) -> Tensor:
    """The parameter's own tensor `name`, zeros at first; `scalar` ones live with the first parameter for all."""
    state = optimiser.state[parameter]
    if name not in state:
        state[name] = torch.zeros((), device=parameter.device) if scalar else torch.zeros_like(parameter)
    value: Tensor = state[name]
    return value
