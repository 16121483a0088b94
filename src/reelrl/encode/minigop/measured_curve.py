"""A rate-distortion curve from encodes that were made elsewhere, in the place of one that probes give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.minigop.reference import RdCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.baseline import BaselinePoint
    from reelrl.encode.minigop.run import MiniGopRun


class MeasuredCurve(RdCurve):
    """Luma PSNR over the logarithm of a clip's bits, straight between points and beyond them.

    `bits` and `psnr_y` are sums over the frames of each mini-GOP, at a rate near the budget.
    """

    def __init__(self, rates: Sequence[float], psnr: Sequence[float]) -> None:
        order = np.argsort(rates)
        self._rates, self._quality = np.asarray(rates)[order], np.asarray(psnr)[order]

    @classmethod
    def through(cls, points: Sequence[BaselinePoint], *, like: RdCurve, clip: Clip) -> MeasuredCurve:
        """Through points of `reel evaluate minigop --baseline`; over the mini-GOPs as another curve has it."""
        seconds = clip.duration_s
        curve = cls([np.log2(point.kbps * 1000 * seconds) for point in points], [point.psnr_y for point in points])
        curve.bits, curve.psnr_y, curve.frames = like.bits, like.psnr_y, like.frames
        return curve

    @classmethod
    def of_runs(cls, runs: Sequence[MiniGopRun], points: Sequence[BaselinePoint] = ()) -> MeasuredCurve:
        """From encodes of one clip that differ in their QP; through `points` where they are known."""
        feedback = runs[0].feedback
        if points:
            seconds = float(runs[0].episode.frames / runs[0].episode.fps)
            curve = cls([np.log2(point.kbps * 1000 * seconds) for point in points], [point.psnr_y for point in points])
        else:
            curve = cls([np.log2(run.bits) for run in runs], [run.psnr_y for run in runs])
        curve.bits = np.mean([[one.bits for one in run.feedback] for run in runs], axis=0)
        curve.psnr_y = np.mean([[one.psnr_y * one.frames for one in run.feedback] for run in runs], axis=0)
        curve.frames = sum(one.frames for one in feedback)
        return curve

    def psnr_at(self, bits: float) -> float:
        rate, rates, quality = float(np.log2(bits)), self._rates, self._quality
        if len(rates) == 1:
            return float(quality[0])
        # The piece that holds the rate; the outer pieces go on beyond the points.
        at = int(np.clip(np.searchsorted(rates, rate), 1, len(rates) - 1))
        slope = (quality[at] - quality[at - 1]) / (rates[at] - rates[at - 1])
        return float(quality[at] + slope * (rate - rates[at]))
