"""One learner's update: a frame is encoded, painted, judged, learned from, and taken into the background.

    frame ──► normalised ──► three branches: embedding, votes ──► picture ──► losses ──► gradients ──► optimiser
         └──► change mask, foreground: where errors weigh more ───────────────┘

A fixed sequence of device work that never asks the device for a value, so that `execution` may record it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reelrl.see.frames.source import to_input
from reelrl.see.model.loss import Losses, compute_frame_difference, reconstruction_loss
from reelrl.see.optim import IntentionalSGD, ObGD
from reelrl.see.result import LearnResult
from reelrl.see.settings import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.optim import Optimizer

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.settings import OptimiserSettings

    Branch = Callable[[Tensor], tuple[Tensor, Tensor]]

# A pixel this far from the background counts as something in front of it.
FOREGROUND = 0.1


class Update:
    """Scores a frame and learns from it; the forward pass `compiled`, and its branches on `streams` of their own."""

    def __init__(self, learner: StreamingAutoEncoder, *, compiled: bool = False, streams: bool = False) -> None:
        self.learner = learner
        self._branches: list[Branch] = [partial(self._branch, number) for number in range(len(KERNELS))]
        self._judge = self._judged
        if compiled:
            # Apart, because branches on streams of their own must not be fused with one another.
            self._branches = [torch.compile(branch, dynamic=False) for branch in self._branches]
            self._judge = torch.compile(self._judged, dynamic=False)
        self._streams = [torch.cuda.Stream() for _ in KERNELS] if streams else []  # type: ignore[no-untyped-call]

    def __call__(self, raw: Tensor, reset: Tensor) -> LearnResult:
        """The scores of a frame on the device, taken before it is learned from; `reset` is 1 where it is a cut."""
        learner = self.learner
        frame = to_input(raw)
        mask = learner.detector(frame)
        in_front = (compute_frame_difference(frame, learner.background.mean) > FOREGROUND).float()
        normalised = learner.background.normalise(frame)
        pairs = self._on_streams(normalised) if self._streams else [branch(normalised) for branch in self._branches]
        (fine, _), (middle, _), (coarse, _) = pairs
        losses, picture, foreground_mse = self._judge([votes for _, votes in pairs], fine, frame, mask, in_front)
        learner.optimiser.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        loss = losses.total.detach()
        norm = descend(learner.optimiser, learner.settings.optimiser, loss, reset)
        # Last: until here the background is that of the frames before, which is what the picture was painted over.
        learner.background.update(frame)
        return LearnResult(
            loss=loss,
            mse=losses.mse,
            l1=losses.l1,
            ssim=losses.ssim,
            gradient_norm=norm,
            foreground_mse=foreground_mse,
            foreground_share=in_front.mean(),
            reconstruction=picture,
            embeddings=(fine.detach(), middle.detach(), coarse.detach()),
            change_mask=mask,
            frame=frame,
        )

    def _on_streams(self, normalised: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The branches at the same time; each one's backward pass runs on its stream too."""
        outer = torch.cuda.current_stream()
        pairs = []
        for branch, stream in zip(self._branches, self._streams, strict=True):
            stream.wait_stream(outer)
            with torch.cuda.stream(stream):
                pairs.append(branch(normalised))
        for stream in self._streams:
            outer.wait_stream(stream)
        return pairs

    def _branch(self, number: int, normalised: Tensor) -> tuple[Tensor, Tensor]:
        """One branch's embedding of a normalised frame, and its votes on the picture."""
        learner = self.learner
        half = learner.settings.precision == "bfloat16"
        with torch.autocast(learner.device.type, torch.bfloat16, enabled=half):
            embedding = learner.encoder.embed(number, normalised)
            return embedding, learner.decoder.branches[number](embedding)

    def _judged(
        self, votes: Sequence[Tensor], fine: Tensor, frame: Tensor, mask: Tensor, in_front: Tensor
    ) -> tuple[Losses, Tensor, Tensor]:
        """Losses, the picture and its foreground error; pixels that changed and those in front weigh more."""
        weights, background = self.learner.settings.loss, self.learner.background.mean
        weight = 1.0 + weights.change * mask + weights.foreground * in_front
        painted = self.learner.decoder.fuse(votes, background)
        # Learned from before it is clamped: where a picture is too bright the gradient must not vanish.
        losses = reconstruction_loss(painted, frame, weight, weights)
        if weights.small:
            losses = losses._replace(total=losses.total + weights.small * self._small_loss(fine, frame))
        picture = painted.detach().clamp(0, 1)
        squares = (picture - frame).square().mean(dim=1, keepdim=True)
        return losses, picture, (squares * in_front).sum() / in_front.sum().clamp(min=1.0)

    def _small_loss(self, fine: Tensor, frame: Tensor) -> Tensor:
        """How far a linear reading of the finest embedding is from the averages, of differences from the background."""
        learner, weights = self.learner, self.learner.settings.loss
        error: Tensor = learner.reader(fine).float() - learner.shrink(frame - learner.background.mean)
        return (weights.mse * error.square() + weights.l1 * error.abs()).mean()


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
