"""Three branches of stride-2 convolutions without padding: fine, middle and coarse embeddings of one frame.

kernel 3   224 -> 111 -> 55 -> 27   texture
kernel 5   224 -> 110 -> 53 -> 25   balance
kernel 7   224 -> 109 -> 52 -> 23   structure
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.functional import softsign

from reelrl.see.model.averages import Averages
from reelrl.see.model.layers import LayerNormalization, ResidualBlock, TransformerBlock
from reelrl.see.settings import KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.see.result import Embeddings


class Encoder(nn.Module):
    """Normalised frames [N, 3, 224, 224] to embeddings ([N, 3, 27, 27], [N, 2, 25, 25], [N, 2, 23, 23])."""

    def __init__(self, settings: AutoEncoderSettings, input_channels: int = 3) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(*_branch(settings, input_channels, kernel, widths, latents))
            for kernel, widths, latents in zip(KERNELS, settings.widths, settings.latents, strict=True)
        )
        kept = zip(KERNELS, settings.latents, strict=True) if settings.averages else ()
        self.averages = nn.ModuleList(Averages(kernel, latents, input_channels) for kernel, latents in kept)
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


def _branch(
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
