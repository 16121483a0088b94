"""What a frame reader says of a place, number by number: of the player, then of every body, players before enemies.

own, view, east, north      how sure it is that the player is there; how much of the place is on the screen; and,
                            as sure as that, the direction in which the player looks, as cosine and sine
there, for each body        how sure it is that the body is there and on the screen
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

OF_SELF = ("own", "view", "east", "north")


def readings_of(bodies: int) -> int:
    """How many numbers are said of a place."""
    return len(OF_SELF) + bodies


def split(readings: Tensor) -> tuple[Tensor, Tensor]:
    """Readings [..., F] as what is said of the player itself [..., OF_SELF] and of each body [..., bodies]."""
    return readings[..., : len(OF_SELF)], readings[..., len(OF_SELF) :]


def surest(readings: Tensor) -> Tensor:
    """Of frames [N, T, places, F], up to each: the player as it is then, and every body as it was seen most surely."""
    own, bodies = split(readings)
    return torch.cat([own, bodies.cummax(1).values], -1)
