"""How an error and a trace of gradients become a step, for several players side by side.

Weights, gradients and traces are matrices with a row per player; errors are vectors. With delta and the gradient of the
prediction that the error is of:

    z <- gamma * lamda * z + grad                       0 * z where the trace is cut
    w <- w + rate * delta * direction(z)

The rules differ in rate and direction:

    obgd            z, at a rate too short to overshoot (Elsayed, Vasan and Mahmood 2024), as `see.optim.ObGD`
    adaptive-obgd   z over the running size of delta * z, the same bound, as `see.optim.AdaptiveObGD`
    trace-adam      the same direction without the bound (Gogianu, Lutu and Pascanu 2026)
    intentional     z over the root of the running size of grad, at the rate that should remove a share `lr` of the
                    error (Sharifnassab et al. 2026)

The gradient of a prediction is known as soon as the action is chosen, the error only one moment later; in between it
waits in `gradient`. Nothing here asks the device for a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from reelrl.act.atari.settings import PlayerSettings, TraceOptimiserSettings

EPS = 1e-8
ERROR_CAP, ERROR_MEMORY = 20.0, 0.9998  # of `intentional`: errors are cut to so many times their usual size


class TraceOptimiser(nn.Module):
    """Changes `weights` [players, numbers] in place; a policy's steps are relative to the errors' usual size."""

    trace: Tensor
    gradient: Tensor
    square: Tensor
    count: Tensor
    slope: Tensor
    error_square: Tensor
    error_size: Tensor

    def __init__(
        self, weights: Tensor, chosen: TraceOptimiserSettings, settings: PlayerSettings, *, policy: bool = False
    ) -> None:
        super().__init__()
        self._weights, self._chosen, self._policy = weights, chosen, policy
        self._decay, self._lr = settings.gamma * settings.lamda, chosen.rate(policy=policy)
        rows = torch.zeros(len(weights), 1, device=weights.device)
        self.register_buffer("trace", torch.zeros_like(weights))
        self.register_buffer("gradient", torch.zeros_like(weights))
        if chosen.name != "obgd":
            self.register_buffer("square", torch.zeros_like(weights))
            self.register_buffer("count", rows.clone())
        if chosen.name == "intentional":
            for name in ("slope", "error_square", "error_size"):
                self.register_buffer(name, rows.clone())

    @torch.no_grad()
    def step(self, error: Tensor, cut: Tensor, counts: Tensor) -> None:
        """Learn from errors [players]; where `cut` is 1 the trace begins anew, where `counts` is 0 the error is 0."""
        delta, counted = error.unsqueeze(1), counts.unsqueeze(1)
        self.trace.mul_((1.0 - cut.unsqueeze(1)) * self._decay).add_(self.gradient)
        match self._chosen.name:
            case "obgd":
                self._move(self._bounded(self.trace, delta) * delta, self.trace)
            case "adaptive-obgd":
                direction = self._by_step_size(delta, counted)
                self._move(self._bounded(direction, delta) * delta, direction)
            case "trace-adam":
                self._move(self._lr * delta, self._by_step_size(delta, counted))
            case "intentional":
                self._intend(delta, counted)

    def _move(self, step: Tensor, direction: Tensor) -> None:
        # Not `addcmul_`: with a factor per row it is no vector code on a CPU.
        self._weights.add_(direction * step)

    def _bounded(self, direction: Tensor, delta: Tensor) -> Tensor:
        """The largest rate up to `lr` that should not overshoot."""
        size = direction.abs().sum(1, keepdim=True)
        return self._lr / (self._lr * self._chosen.kappa * delta.abs().clamp(min=1.0) * size).clamp(min=1.0)

    def _by_step_size(self, delta: Tensor, counts: Tensor) -> Tensor:
        beta2 = self._chosen.beta2
        self.count.add_(counts)
        weighted = self.trace * delta
        self.square.mul_(1.0 - (1.0 - beta2) * counts).addcmul_(weighted, weighted, value=1.0 - beta2)
        # Where nothing has counted yet all squares are 0, and so is what they are divided by.
        known = (1.0 - beta2**self.count).clamp(min=EPS)
        return self.trace / (self.square / known).sqrt_().add_(EPS)

    def _intend(self, delta: Tensor, counts: Tensor) -> None:
        beta2 = self._chosen.beta2
        self.count.add_(counts)
        error = self._usual(delta, counts)
        counted = self.gradient * counts
        self.square.mul_(1.0 - (1.0 - beta2) * counts).addcmul_(counted, counted, value=1.0 - beta2)
        sizes = (self.square / (1.0 - beta2**self.count).clamp(min=EPS)).sqrt_().add_(EPS)
        direction = self.trace / sizes
        self.slope.lerp_((self.gradient.square() / sizes).sum(1, keepdim=True), (1.0 - self._decay) * counts)
        mean_slope = self.slope / (1.0 - self._decay**self.count).clamp(min=EPS)
        change = (mean_slope * (self.trace * direction).sum(1, keepdim=True)).sqrt()
        self._move(self._lr / change.clamp(min=EPS) * error, direction)

    def _usual(self, delta: Tensor, counts: Tensor) -> Tensor:
        """The error, cut to what is usual, and of a policy relative to it."""
        share = (1.0 - ERROR_MEMORY) * counts
        known = (1.0 - ERROR_MEMORY**self.count).clamp(min=EPS)
        self.error_square.lerp_(delta.square(), share)
        most = ERROR_CAP * (self.error_square / known).sqrt()
        cut = delta.clamp(-most, most)
        if not self._policy:
            return cut
        self.error_size.lerp_(cut.abs(), share)
        return cut / (self.error_size / known).clamp(min=1e-12)


def limited(error: Tensor, limit: float) -> Tensor:
    """The error, cut to at most `limit` either way; 0 is no limit."""
    return error.clamp(-limit, limit) if limit > 0 else error
