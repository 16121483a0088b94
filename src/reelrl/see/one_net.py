"""The network of one learner, and a step of any optimiser down its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reelrl.see.optim import IntentionalSGD, ObGD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim import Optimizer

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.settings import OptimiserSettings


class OneNet:
    """`Nets` of a single learner: its own modules and its own optimiser."""

    def __init__(self, learner: StreamingAutoEncoder) -> None:
        self.learners: Sequence[StreamingAutoEncoder] = [learner]
        self.settings = learner.settings
        self.background, self.detector = learner.background, learner.detector

    def branch(self, number: int, normalised: Tensor) -> tuple[Tensor, Tensor]:
        (learner,) = self.learners
        half = self.settings.precision == "bfloat16"
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=half):
            embedding = learner.encoder.embed(number, normalised)
            return embedding, learner.decoder.branches[number](embedding)

    def read(self, fine: Tensor) -> Tensor:
        small: Tensor = self.learners[0].reader(fine)
        return small

    def descend(self, loss: Tensor, resets: Sequence[Tensor]) -> Tensor:
        (learner,) = self.learners
        learner.optimiser.zero_grad(set_to_none=True)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        return descend(learner.optimiser, self.settings.optimiser, loss.detach()[0], resets[0]).view(1)


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
