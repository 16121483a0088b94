"""The network: background, encoder, decoder. Three branches of stride-2 convolutions without padding, there and back.

kernel 3   224 -> 111 -> 55 -> 27   texture
kernel 5   224 -> 110 -> 53 -> 25   balance
kernel 7   224 -> 109 -> 52 -> 23   structure

The encoder sees a frame as its difference from the background. In the decoder each branch says a colour for every
pixel and how much its word counts there:

    picture = background + sum of colours * softmax of weights

A sprite in front of the background is thus a difference from it, and a picture of nothing new is all zeros. Painting
whole pixels through a last sigmoid ("all") is there for comparison: its flat ends make it learn far more slowly.

Output padding makes each branch end at 224 x 224, so nothing is resized and sprites stay sharp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import softsign

from reelrl.see.model.averages import Averages
from reelrl.see.model.layers import LayerNormalization, ResidualBlock, TransformerBlock
from reelrl.see.model.loss import EACH
from reelrl.see.settings import KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.see.result import Embeddings

# So that 27, 25 and 23 grow back to 55/111/224, 53/110/224 and 52/109/224.
OUTPUT_PADDINGS = ((0, 0, 1), (0, 1, 1), (1, 0, 1))


class Background(nn.Module):
    """What a stream shows when nothing happens: each pixel's running mean, one running scale of differences from it.

    The mean of the first `memory` frames is exact; after that old frames fade. The encoder sees frames as differences
    in units of the scale, and the decoder paints over the mean. One stream, or streams side by side (`stack_buffers`).
    """

    mean: Tensor
    square: Tensor
    seen: Tensor

    def __init__(self, size: int, channels: int = 3, memory: int = 2000) -> None:
        super().__init__()
        self.memory = memory
        self.register_buffer("mean", torch.zeros(1, channels, size, size))
        self.register_buffer("square", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def normalise(self, frames: Tensor) -> Tensor:
        # The floor keeps a still picture still: a scale of zero would blow up the first speck of dust.
        return (frames - self.mean) * self.square.clamp(min=1e-4).rsqrt().view(-1, 1, 1, 1)

    @torch.no_grad()
    def update(self, frame: Tensor) -> None:
        """Take one frame into the mean and the scale."""
        self.seen.add_(1.0).clamp_(max=self.memory)
        rate = 1.0 / self.seen
        difference = frame - self.mean
        self.mean.add_(difference * rate.view(-1, 1, 1, 1))
        self.square.lerp_(difference.square().mean(dim=EACH).view_as(self.square), rate)


class Encoder(nn.Module):
    """Normalised frames [N, 3, 224, 224] to embeddings ([N, 3, 27, 27], [N, 2, 25, 25], [N, 2, 23, 23])."""

    def __init__(self, settings: AutoEncoderSettings, input_channels: int = 3) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(*_encoder_branch(settings, input_channels, kernel, widths, latents))
            for kernel, widths, latents in zip(KERNELS, settings.widths, settings.latents, strict=True)
        )
        averaged = zip(KERNELS, settings.latents, strict=True) if settings.averages else ()
        self.averages = nn.ModuleList(Averages(kernel, latents, input_channels) for kernel, latents in averaged)
        self.bounded = settings.bounded

    def forward(self, frames: Tensor) -> Embeddings:
        fine, middle, coarse = (self.embed(branch, frames) for branch in range(len(self.branches)))
        return fine, middle, coarse

    def embed(self, branch: int, frames: Tensor) -> Tensor:
        """The embedding of one branch."""
        code: Tensor = self.branches[branch](frames)
        if self.averages:
            code = code + self.averages[branch](frames)
        return softsign(code) if self.bounded else code

    def start_at_averages_(self) -> None:
        """Where there are averages, make them plain ones."""
        for each in self.averages:
            each.start_()  # type: ignore[operator]


class Decoder(nn.Module):
    """Embeddings and a background [1, 3, 224, 224] to pictures [N, 3, 224, 224] in [0, 1]."""

    def __init__(self, settings: AutoEncoderSettings, output_channels: int = 3) -> None:
        super().__init__()
        self.paint = settings.paint
        self.branches = nn.ModuleList(
            nn.Sequential(*_decoder_branch(settings, output_channels + 1, kernel, widths, latents, paddings))
            for kernel, widths, latents, paddings in zip(
                KERNELS, settings.widths, settings.latents, OUTPUT_PADDINGS, strict=True
            )
        )

    def start_at_background_(self) -> None:
        """Zero the last layers, so that the first picture is the background and nothing has to be unlearned."""
        for branch in self.branches:
            nn.init.zeros_(branch[-1].weight)  # type: ignore[index]

    def forward(self, embeddings: Embeddings, background: Tensor) -> Tensor:
        return self.fuse([branch(each) for branch, each in zip(self.branches, embeddings, strict=True)], background)

    def fuse(self, votes: Sequence[Tensor], background: Tensor) -> Tensor:
        """One picture from each branch's votes [N, colours + 1, H, W]."""
        stacked = torch.stack(list(votes)).float()
        colour = (stacked[:, :, :-1] * stacked[:, :, -1:].softmax(dim=0)).sum(dim=0)
        return torch.sigmoid(colour) if self.paint == "all" else background + colour


def _encoder_branch(
    settings: AutoEncoderSettings, input_channels: int, kernel: int, widths: tuple[int, int], latents: int
) -> Iterator[nn.Module]:
    before = input_channels
    for width in widths:
        yield nn.Conv2d(before, width, kernel, stride=2)
        if settings.layer_norm:
            yield LayerNormalization()
        yield nn.LeakyReLU()
        before = width
    if settings.residual:
        yield ResidualBlock(before)
    yield nn.Conv2d(before, latents, kernel, stride=2)
    if settings.transformer:
        yield TransformerBlock(latents)


def _decoder_branch(
    settings: AutoEncoderSettings,
    outputs: int,
    kernel: int,
    widths: tuple[int, int],
    latents: int,
    paddings: tuple[int, int, int],
) -> Iterator[nn.Module]:
    if settings.transformer:
        yield TransformerBlock(latents)
    first, second = widths
    yield nn.ConvTranspose2d(latents, second, kernel, stride=2, output_padding=paddings[0])
    if settings.residual:
        yield ResidualBlock(second)
    if settings.layer_norm:
        yield LayerNormalization()
    yield nn.LeakyReLU()
    yield nn.ConvTranspose2d(second, first, kernel, stride=2, output_padding=paddings[1])
    if settings.layer_norm:
        yield LayerNormalization()
    yield nn.LeakyReLU()
    yield nn.ConvTranspose2d(first, outputs, kernel, stride=2, output_padding=paddings[2])
