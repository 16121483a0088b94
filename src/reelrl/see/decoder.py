"""Three mirrored branches of transposed convolutions, and a fusion that decides per pixel whom to believe.

Each branch says a colour, how much its colour counts, and whether it covers the background at all:

    picture = background + cover * (sigmoid(colours weighed by softmax) - background)

Output padding makes each branch end at 224 x 224, so nothing is resized and sprites stay sharp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.see.layers import LayerNormalization, ResidualBlock, TransformerBlock
from reelrl.see.settings import KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.see.result import Embeddings

# So that 27, 25 and 23 grow back to 55/111/224, 53/110/224 and 52/109/224.
OUTPUT_PADDINGS = ((0, 0, 1), (0, 1, 1), (1, 0, 1))


class Decoder(nn.Module):
    """Embeddings and a background [1, 3, 224, 224] to pictures [N, 3, 224, 224] in [0, 1]."""

    def __init__(self, settings: AutoEncoderSettings, output_channels: int = 3) -> None:
        super().__init__()
        self.channels = output_channels
        self.paint = settings.paint
        self.branches = nn.ModuleList(
            nn.Sequential(*_branch(settings, output_channels + 2, kernel, widths, latents, paddings))
            for kernel, widths, latents, paddings in zip(
                KERNELS, settings.widths, settings.latents, OUTPUT_PADDINGS, strict=True
            )
        )

    def start_at_background_(self) -> None:
        """Zero the last layers, so that the first picture is the background and nothing has to be unlearned."""
        for branch in self.branches:
            nn.init.zeros_(branch[-1].weight)  # type: ignore[index]

    def forward(self, embeddings: Embeddings, background: Tensor) -> Tensor:
        votes = torch.stack([branch(each) for branch, each in zip(self.branches, embeddings, strict=True)])
        return fuse(votes.float(), background, self.paint)


def fuse(votes: Tensor, background: Tensor, paint: str) -> Tensor:
    """One picture from the branches' votes [3, N, colours + 2, H, W]."""
    colours, weights, covers = votes[:, :, :-2], votes[:, :, -2:-1], votes[:, :, -1:]
    colour = (colours * weights.softmax(dim=0)).sum(dim=0)
    if paint == "difference":
        return background + colour
    colour = torch.sigmoid(colour)
    if paint == "all":
        return colour
    return background + torch.sigmoid(covers.sum(dim=0) - 1.0) * (colour - background)


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
