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

LAST = 0.25
"""Weight of the last stretch in what is expected of the next, against all."""

UNLIKE, _ALIKE = 2.5, 40.0
"""Standard deviation of the level of a stretch of so many frames around that of the rest, in VMAF."""


_FOLLOWS_PSNR = ("vmaf", "psnr")
_PER_DB, _MOST_PER_DB = 1.0, 2.5  # from frame to frame of one encode, in the scale of curves
_SURE = 1.0  # squared dB that speak for the first


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


def per_db(figure: str, values: Sequence[float], psnrs: Sequence[float]) -> float:
    """How much better those frames of an encode are that have a dB more, in the scale of curves, by these frames.

    Where pictures stand still, PSNR may be far off while VMAF is not.
    """
    if figure.partition(".")[0] not in _FOLLOWS_PSNR:
        return 0.0
    scaled, off = to_scale(figure, np.array(values)), np.array(psnrs) - np.mean(psnrs)
    slope = (off @ scaled + _SURE * _PER_DB) / (off @ off + _SURE)
    return float(np.clip(slope, 0, _MOST_PER_DB))


def of_all(figure: str, value: float, off: float, slope: float) -> float:
    """What all frames have, where some have `value` and all `off` dB more than those."""
    return float(from_scale(figure, to_scale(figure, value) + slope * off))


class Levels:
    """Stretches of an encode on the curve of their scene.

    curve   expected figure at each of `CRFS`, falling
    doubt   standard deviation of that before anything was scored, where 1 is what 1 is for VMAF
    frames  of the scene
    before  stretches of an earlier encode of it: which parts lie above and below the curve
    """

    def __init__(
        self,
        figure: str,
        curve: Vector,
        doubt: float,
        stretches: Sequence[Stretch],
        frames: int,
        before: Sequence[Stretch] = (),
    ) -> None:
        self._figure, self._scaled, self._stretches = figure, to_scale(figure, curve), stretches
        self._known = sum(stretch.frames for stretch in stretches)
        self._frames, self._levels = frames, self._levels_of(stretches)
        shape = np.zeros(frames)
        of_each = np.repeat(self._levels_of(before), [stretch.frames for stretch in before])
        shape[: len(of_each)] = of_each
        unsure = self._known / _ALIKE * (doubt / UNLIKE) ** 2
        self._ahead = shape[self._known :] + self._off(shape) * unsure / (1 + unsure)

    def rest_at(self, target: float, under_way: Sequence[float], least: float, most: float) -> tuple[float, float]:
        """(CRF within bounds for frames that are not sent, what all frames then have on average).

        `under_way` are the CRFs of those that were sent and are not scored.
        """
        sent = self._ahead[: len(under_way)]
        done = sum(each.frames * each.figure for each in self._stretches)
        done += float(from_scale(self._figure, np.interp(under_way, CRFS, self._scaled) + sent).sum())
        means = (done + self._sum(self._ahead[len(under_way) :])) / self._frames
        return _nearest(means, target, least, most)

    def whole_at(self, target: float) -> float:
        """The CRF at which all frames would have the target on average."""
        known = np.repeat(self._levels, [stretch.frames for stretch in self._stretches])
        total = self._sum(np.concatenate([known, self._ahead]))
        return _nearest(total / self._frames, target, CRFS[0], CRFS[-1])[0]

    def _levels_of(self, stretches: Sequence[Stretch]) -> Vector:
        figures, crfs = [each.figure for each in stretches], [each.crf for each in stretches]
        levels: Vector = to_scale(self._figure, np.array(figures)) - np.interp(crfs, CRFS, self._scaled)
        return levels

    def _off(self, shape: Vector) -> float:
        """How far the stretches lie above what was expected of them: all, and the last once more."""
        sizes = [stretch.frames for stretch in self._stretches]
        ends = np.cumsum(sizes)
        expected = [shape[end - size : end].mean() for end, size in zip(ends, sizes, strict=True)]
        off = self._levels - expected
        return float(LAST * off[-1] + (1 - LAST) * np.average(off, weights=sizes))

    def _sum(self, levels: Vector) -> Vector:
        """Of frames at these levels, at each of `CRFS`."""
        total: Vector = from_scale(self._figure, self._scaled + levels[:, None]).sum(axis=0)
        return total


def _nearest(means: Vector, target: float, least: float, most: float) -> tuple[float, float]:
    """(CRF, mean) nearest to the target within bounds; where the curve is flat, the highest CRF."""
    inside = np.flatnonzero((least <= CRFS) & (most >= CRFS))[::-1]
    place = int(inside[np.argmin(np.abs(means[inside] - target))])
    return float(CRFS[place]), float(means[place])
