"""What is still to come of a scene, by its expected curve and by what stretches of it had: some lie above, some below.

The shape of the curve over CRF is the model's, in the scale in which curves are nearly straight; each stretch has a
level of its own on it. What is not known yet is taken to be between the last stretch and all of them, and the nearer
to the model's own level the surer that is, and the fewer frames are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.model import CRFS, from_scale, to_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.target.model import Vector

LAST = 0.5
"""Weight of the last stretch in what is expected of the next, against all."""

UNLIKE, _ALIKE = 1.5, 40.0
"""Standard deviation of the level of a stretch of so many frames around that of the rest, in VMAF."""


@dataclass(frozen=True)
class Stretch:
    """Some frames of an encode, one after the other: the CRF that they were coded at on average, and their figure."""

    frames: int
    crf: float
    figure: float


def mean_figure(stretches: Sequence[Stretch]) -> float:
    return float(np.average([each.figure for each in stretches], weights=[each.frames for each in stretches]))


def mean_crf(stretches: Sequence[Stretch]) -> float:
    return float(np.average([each.crf for each in stretches], weights=[each.frames for each in stretches]))


class Levels:
    """Stretches of an encode on the curve of their scene.

    curve   expected figure at each of `CRFS`, falling
    doubt   standard deviation of that before anything was scored, where 1 is what 1 is for VMAF
    frames  of the scene
    """

    def __init__(self, figure: str, curve: Vector, doubt: float, stretches: Sequence[Stretch], frames: int) -> None:
        self._figure, self._scaled, self._stretches = figure, to_scale(figure, curve), stretches
        self._doubt = doubt
        self._known = sum(stretch.frames for stretch in stretches)
        self._frames = frames
        self._levels = [
            float(to_scale(figure, each.figure)) - float(np.interp(each.crf, CRFS, self._scaled)) for each in stretches
        ]

    def rest_at(self, target: float, under_way: Sequence[float], least: float, most: float) -> tuple[float, float]:
        """(CRF within bounds for frames that are not sent, what all frames then have on average).

        `under_way` are the CRFs of those that were sent and are not scored.
        """
        ahead = self._curve(self._ahead)
        done = sum(each.frames * each.figure for each in self._stretches)
        done += float(np.interp(under_way, CRFS, ahead).sum()) if under_way else 0.0
        rest = self._frames - self._known - len(under_way)
        means = (done + rest * ahead) / self._frames
        return _nearest(means, target, least, most)

    def whole_at(self, target: float) -> float:
        """The CRF at which all frames would have the target on average."""
        total = (self._frames - self._known) * self._curve(self._ahead)
        for stretch, level in zip(self._stretches, self._levels, strict=True):
            total = total + stretch.frames * self._curve(level)
        return _nearest(total / self._frames, target, CRFS[0], CRFS[-1])[0]

    @property
    def _ahead(self) -> float:
        frames = [stretch.frames for stretch in self._stretches]
        like_known = LAST * self._levels[-1] + (1 - LAST) * float(np.average(self._levels, weights=frames))
        unsure = self._known / _ALIKE * (self._doubt / UNLIKE) ** 2
        return like_known * unsure / (1 + unsure)

    def _curve(self, level: float) -> Vector:
        return from_scale(self._figure, self._scaled + level)


def _nearest(means: Vector, target: float, least: float, most: float) -> tuple[float, float]:
    """(CRF, mean) nearest to the target within bounds."""
    inside = np.flatnonzero((least <= CRFS) & (most >= CRFS))
    place = int(inside[np.argmin(np.abs(means[inside] - target))])
    return float(CRFS[place]), float(means[place])
