"""Three mirrored branches of transposed convolutions, and a fusion that decides per pixel whom to believe.

Each branch says a colour for every pixel and how much its word counts there:

    picture = background + sum of colours * softmax of weights

A sprite in front of the background is thus a difference from it, and a picture of nothing new is all zeros. Painting
whole pixels through a last sigmoid ("all") is there for comparison: its flat ends make it learn far more slowly.

Output padding makes each branch end at 224 x 224, so nothing is resized and sprites stay sharp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.see.model.layers import LayerNormalization, ResidualBlock, TransformerBlock
from reelrl.see.settings import KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.see.result import Embeddings

# So that 27, 25 and 23 grow back to 55/111/224, 53/110/224 and 52/109/224.
OUTPUT_PADDINGS = ((0, 0, 1), (0, 1, 1), (1, 0, 1))


class Decoder(nn.Module):
    """Embeddings and a background [1, 3, 224, 224] to pictures [N, 3, 224, 224] in [0, 1]."""

    def __init__(self, settings: AutoEncoderSettings, output_channels: int = 3) -> None:
        super().__init__()
        self.paint = settings.paint
        self.branches = nn.ModuleList(
            nn.Sequential(*_branch(settings, output_channels + 1, kernel, widths, latents, paddings))
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


def _branch(
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
