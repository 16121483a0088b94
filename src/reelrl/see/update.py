"""Learners' update: frames are encoded, painted, judged, learned from, and taken into the background.

    frame ──► normalised ──► three branches: embedding, votes ──► picture ──► losses ──► gradients ──► optimiser
         └──► change mask, foreground: where errors weigh more ───────────────┘

The learners of an update see a frame each and share nothing; `one_net` computes a single one, `many_nets` several at
once. A fixed sequence of device work that never asks the device for a value, so that `execution` may record it.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from reelrl.see.frames.source import to_input
from reelrl.see.model.loss import EACH, Losses, compute_frame_difference, reconstruction_loss
from reelrl.see.result import FIGURES, LearnResult
from reelrl.see.settings import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.model.loss import PixelChangeDetector
    from reelrl.see.model.network import Background
    from reelrl.see.settings import AutoEncoderSettings

    Branch = Callable[[Tensor], tuple[Tensor, Tensor]]

# A pixel this far from the background counts as something in front of it.
FOREGROUND = 0.1


class Nets(Protocol):
    """The networks of learners with the same settings, and what they remember; the first dimension is theirs."""

    learners: Sequence[StreamingAutoEncoder]
    settings: AutoEncoderSettings
    background: Background
    detector: PixelChangeDetector

    def branch(self, number: int, normalised: Tensor) -> tuple[Tensor, Tensor]:
        """One branch's embeddings of normalised frames, and its votes on the pictures."""
        ...

    def read(self, fine: Tensor) -> Tensor:
        """A small picture of each finest embedding, by the reader of `loss.small`."""
        ...

    def descend(self, loss: Tensor, resets: Sequence[Tensor]) -> Tensor:
        """A step down each one's loss [L]; the norms of the gradients [L] before they were clipped."""
        ...


class Update:
    """Scores a frame each and learns from it; the forward pass `compiled`, its branches on `streams` of their own."""

    def __init__(self, nets: Nets, *, compiled: bool = False, streams: bool = False) -> None:
        self.nets, self.learners = nets, nets.learners
        self._branches: list[Branch] = [partial(nets.branch, number) for number in range(len(KERNELS))]
        self._judge = self._judged
        if compiled:
            # Apart, because branches on streams of their own must not be fused with one another.
            if len(self.learners) == 1:
                self._branches = [torch.compile(branch, dynamic=False) for branch in self._branches]
            self._judge = torch.compile(self._judged, dynamic=False)
        self._streams = [torch.cuda.Stream() for _ in KERNELS] if streams else []  # type: ignore[no-untyped-call]

    def __call__(self, raw: Sequence[Tensor], resets: Sequence[Tensor]) -> list[LearnResult]:
        """The scores of a frame each, taken before it is learned from; a reset is 1 where the frame is a cut."""
        nets = self.nets
        frame = _inputs(raw)
        mask = nets.detector(frame)
        in_front = (compute_frame_difference(frame, nets.background.mean) > FOREGROUND).float()
        normalised = nets.background.normalise(frame)
        pairs = self._on_streams(normalised) if self._streams else [branch(normalised) for branch in self._branches]
        (fine, _), (middle, _), (coarse, _) = pairs
        losses, picture, foreground_mse = self._judge([votes for _, votes in pairs], fine, frame, mask, in_front)
        norm = nets.descend(losses.total, resets)
        # Last: until here the background is that of the frames before, which is what the picture was painted over.
        nets.background.update(frame)
        figures = losses.total.detach(), losses.mse, losses.l1, losses.ssim, norm, foreground_mse
        shown = (*figures, in_front.mean(dim=EACH)), picture, mask, frame, (fine, middle, coarse)
        return [_result(number, *shown) for number in range(len(self.learners))]

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

    def _judged(
        self, votes: Sequence[Tensor], fine: Tensor, frame: Tensor, mask: Tensor, in_front: Tensor
    ) -> tuple[Losses, Tensor, Tensor]:
        """Losses, pictures and their foreground errors; pixels that changed and those in front weigh more."""
        weights, background = self.nets.settings.loss, self.nets.background.mean
        weight = 1.0 + weights.change * mask + weights.foreground * in_front
        painted = self.learners[0].decoder.fuse(votes, background)
        # Learned from before it is clamped: where a picture is too bright the gradient must not vanish.
        losses = reconstruction_loss(painted, frame, weight, weights)
        if weights.small:
            losses = losses._replace(total=losses.total + weights.small * self._small_loss(fine, frame))
        picture = painted.detach().clamp(0, 1)
        squares = (picture - frame).square().mean(dim=1, keepdim=True)
        return losses, picture, (squares * in_front).sum(dim=EACH) / in_front.sum(dim=EACH).clamp(min=1.0)

    def _small_loss(self, fine: Tensor, frame: Tensor) -> Tensor:
        """How far a linear reading of the finest embedding is from the averages, of differences from the background."""
        weights, shrink = self.nets.settings.loss, self.learners[0].shrink
        error: Tensor = self.nets.read(fine.float()) - shrink(frame - self.nets.background.mean)
        return (weights.mse * error.square() + weights.l1 * error.abs()).mean(dim=EACH)


def _inputs(raw: Sequence[Tensor]) -> Tensor:
    """Frames as the networks see them, [L, 3, 224, 224]; neighbours of one size are resized at once."""
    groups = [list(group) for _, group in groupby(raw, lambda frame: (frame.shape, frame.dtype))]
    inputs = [to_input(torch.stack(group) if len(group) > 1 else group[0]) for group in groups]
    return inputs[0] if len(inputs) == 1 else torch.cat(inputs)


def _result(
    number: int,
    figures: Sequence[Tensor],
    picture: Tensor,
    mask: Tensor,
    frame: Tensor,
    embeddings: tuple[Tensor, Tensor, Tensor],
) -> LearnResult:
    """What one of the learners made of its frame."""
    own = slice(number, number + 1)
    fine, middle, coarse = (each.detach()[own] for each in embeddings)
    return LearnResult(
        **{name: each[number] for name, each in zip(FIGURES, figures, strict=True)},
        reconstruction=picture[own],
        embeddings=(fine, middle, coarse),
        change_mask=mask[own],
        frame=frame[own],
    )
