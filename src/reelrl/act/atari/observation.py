"""What players see of a moment: the last pictures in grey, the last embeddings, or the game's own numbers.

picture ──► grey, 84 x 84 ──► the last four ──────────────────────┐
       └──► autoencoder (learns it) ──► the last two embeddings ──┼──► normalised over the stream ──► parts by name
numbers ──────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from reelrl.act.atari.moments import RunningMoments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.act.atari.settings import PlayerSettings
    from reelrl.see.result import Embeddings

EMBEDDINGS = ("texture", "balance", "structure")
SIDES = (27, 25, 23)
_GREY = (0.299, 0.587, 0.114)


class Observer(nn.Module):
    """Keeps each player's last pictures and embeddings, and the moments of all it was shown."""

    grey: Tensor

    def __init__(self, settings: PlayerSettings, numbers: int, players: int = 1) -> None:
        super().__init__()
        self.settings = settings
        self.shapes = part_shapes(settings, numbers)
        self.register_buffer("grey", torch.tensor(_GREY) / 255, persistent=False)
        for name, shape in self.shapes.items():
            self.register_buffer(f"last_{name}", torch.zeros(players, *shape))
        self.moments = nn.ModuleDict(
            {name: RunningMoments(players, shape) for name, shape in self.shapes.items() if settings.normalise}
        )

    @torch.no_grad()
    def forward(
        self,
        pictures: Sequence[Tensor],
        numbers: Tensor,
        embeddings: Embeddings | None,
        began: Tensor,
        *,
        adds: bool = True,
    ) -> dict[str, Tensor]:
        """The parts by name, each [players, ...]; `began` is 1 where an episode begins.

        Pictures are uint8 [some players, height, width, 3], one tensor for players in a row with the same size. Without
        `adds` what normalises stays as it is, as for players that no longer learn.
        """
        new: dict[str, Tensor] = {}
        if "numbers" in self.shapes:
            new["numbers"] = numbers
        if "pixels" in self.shapes:
            small = [small_grey(each, self.settings.size, self.grey) for each in pictures]
            new["pixels"] = small[0] if len(small) == 1 else torch.cat(small)
        if embeddings is not None:
            new |= dict(zip(EMBEDDINGS, embeddings, strict=True))
        return {name: self._seen(name, value, began, adds) for name, value in new.items()}

    @torch.no_grad()
    def parts(self) -> dict[str, Tensor]:
        """What was seen last, by name."""
        last = {name: getattr(self, f"last_{name}") for name in self.shapes}
        return {
            name: self.moments[name].normalise(part) if name in self.moments else part  # type: ignore[operator]
            for name, part in last.items()
        }

    def _seen(self, name: str, value: Tensor, began: Tensor, adds: bool) -> Tensor:
        last: Tensor = getattr(self, f"last_{name}")
        repeats = last.shape[1] // value.shape[1]
        # An episode begins as if its first picture had been there for long.
        first = torch.cat([value] * repeats, 1)
        begins = began.view(-1, *[1] * (value.dim() - 1)) > 0
        last.copy_(torch.where(begins, first, torch.cat([last[:, value.shape[1] :], value], 1)))
        if name not in self.moments:
            return last.clone()
        moments: RunningMoments = self.moments[name]  # type: ignore[assignment]
        if adds:
            moments.add(last)
        return moments.normalise(last)


def part_shapes(settings: PlayerSettings, numbers: int) -> dict[str, tuple[int, ...]]:
    """The shape of each part that is seen."""
    if settings.observation == "numbers":
        return {"numbers": (numbers,)}
    shapes: dict[str, tuple[int, ...]] = {}
    if settings.observation in ("pixels", "both"):
        shapes["pixels"] = (settings.stack, settings.size, settings.size)
    if settings.watches:
        for name, channels, side in zip(EMBEDDINGS, settings.autoencoder.latents, SIDES, strict=True):
            shapes[name] = (settings.embedding_stack * channels, side, side)
    return shapes


def small_grey(pictures: Tensor, size: int, grey: Tensor) -> Tensor:
    """Pictures [N, height, width, 3] as [N, 1, size, size] in [0, 1]; each pixel is the mean of what it covers."""
    # A mean and no sample in between: the ball of Breakout is two pixels wide.
    red, green, blue = pictures.float().unbind(3)
    light = red * grey[0] + green * grey[1] + blue * grey[2]
    return functional.adaptive_avg_pool2d(light.unsqueeze(1), size)
