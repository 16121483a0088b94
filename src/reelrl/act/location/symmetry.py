"""Turns and mirrorings of a map that leave it as it is: what happened in a match might as well have happened so.

A net with a memory hears of few matches, and learns them by heart. On a map that looks the same from all sides it may
hear of each in up to eight ways; on any other only as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reelrl.act.location.readings import split

if TYPE_CHECKING:
    from torch import Tensor

    from reelrl.act.location.samples import Marks, Places
    from reelrl.act.recording.maps import MapPlan

_NEAR = 1.0  # map units; walls that lie as near as that are the same


@dataclass(frozen=True, eq=False)
class Symmetry:
    """`places[q]` is the place that comes to lie where q is; `turn` [2, 2] turns directions."""

    places: NDArray[np.int64]
    turn: NDArray[np.float64]

    def readings(self, histories: Tensor) -> Tensor:
        """What a frame reader would have read [..., places * F], had all been turned."""
        by_place = torch.unflatten(histories, -1, (len(self.places), -1))[..., torch.from_numpy(self.places), :]
        turn = torch.from_numpy(self.turn.T).to(histories)
        own, bodies = split(by_place)
        return torch.cat([own[..., :2], own[..., 2:] @ turn, bodies], -1).flatten(-2)

    def marks(self, marks: Marks) -> Marks:
        """Places [N, places] that would have held somebody."""
        return marks[:, self.places]

    def moved(self, where: Places) -> Places:
        """Where those would have been who were there; -1 stays nowhere."""
        return np.append(np.argsort(self.places), -1)[where]


def symmetries(plan: MapPlan) -> list[Symmetry]:
    """All of the eight ways to lay a square upon itself that lay walls upon walls and places upon places.

    The first is the one that changes nothing; it is the only one of a map whose walls are unknown.
    """
    if not len(plan.walls):
        return [Symmetry(np.arange(len(plan.places)), np.eye(2))]
    corners = plan.boxes.reshape(-1, 2, 2)
    middle = (corners.min((0, 1)) + corners.max((0, 1))) / 2
    symmetries = []
    for flip in (1, -1):
        for quarter in range(4):
            cos, sin = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
            turn = np.array([[cos, -sin], [sin, cos]], np.float64) @ np.diag([1.0, flip])
            walls = (plan.walls.reshape(-1, 2, 2) - middle) @ turn.T + middle
            boxes = np.sort((corners - middle) @ turn.T + middle, axis=1)
            places = _same(boxes.reshape(-1, 4), plan.boxes)
            if places is not None and _same(_ordered(walls), _ordered(plan.walls.reshape(-1, 2, 2))) is not None:
                symmetries.append(Symmetry(places, turn))
    return symmetries


def _same(ones: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Which of the ones each of the others is, if all are there."""
    apart = np.abs(others[:, None] - ones).max(-1)
    return np.asarray(apart.argmin(1)) if (apart.min(1, initial=np.inf) < _NEAR).all() else None


def _ordered(walls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lines [n, 2, 2] as [n, 4], each from its lower end: one drawn from the other side is the same."""
    swap = (walls[:, 0] @ np.array([1e4, 1.0])) > (walls[:, 1] @ np.array([1e4, 1.0]))
    return np.where(swap[:, None, None], walls[:, ::-1], walls).reshape(-1, 4)
