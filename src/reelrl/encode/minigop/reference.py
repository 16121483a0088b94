"""What the encoder alone makes of a clip: the curve that decisions are measured against, and the account of a pass.

Three probes around the budget give the clip's luma PSNR over log2 of its bits. Rewards and costs are differences of
two figures of the whole clip, in which mini-GOPs not yet known stand as the encoder alone would code them at the
budget. So they add up to the figures of the finished clip:

    sum of rewards   dB above the encoder's own curve at the bits spent
    sum of costs     bits beyond the budget over the budget (vbr); bits that overflowed over the bucket's size (cbr)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import psnr_from_sse
from reelrl.encode.minigop.source.plan import spans_of
from reelrl.encode.minigop.source.probe import probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.evaluation.baseline import BaselinePoint
    from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback
    from reelrl.encode.minigop.run import MiniGopRun

CURVE_STEP = 6
"""QP steps from one probe of the curve to the next."""


class RdCurve:
    """A clip's own curve near one QP, and how its bits and quality lie over the mini-GOPs there."""

    def __init__(self, clip: Clip, settings: EncoderSettings) -> None:
        middle = min(max(settings.qp, 1 + CURVE_STEP), 63 - CURVE_STEP)
        probes = [probe(clip, replace(settings, qp=middle + step)) for step in (-CURVE_STEP, 0, CURVE_STEP)]
        pixels = clip.width * clip.height
        psnr = np.array([[psnr_from_sse(error, pixels) for error in made.sse.tolist()] for made in probes])
        rates = np.log2([made.total_bits for made in probes])
        self._lowest, self._highest = float(rates.min()), float(rates.max())
        curve: list[float] = np.polyfit(rates, psnr.mean(1), 2).tolist()
        self._a, self._b, self._c = curve
        starts = [span.first for span in spans_of(clip.frame_count, settings)]
        self.bits = np.add.reduceat(probes[1].bits, starts).astype(np.float64)
        self.psnr_y = np.add.reduceat(psnr[1], starts)
        self.frames = clip.frame_count

    def psnr_at(self, bits: float) -> float:
        """Mean luma PSNR in dB at so many bits: a parabola through the probes, straight beyond them."""
        rate = float(np.log2(bits))
        inner = min(max(rate, self._lowest), self._highest)
        slope = 2 * self._a * inner + self._b
        return (self._a * inner + self._b) * inner + self._c + slope * (rate - inner)


class MeasuredCurve(RdCurve):
    """A curve from encodes that were made elsewhere: straight between their points, and beyond them.

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


class Account:
    """Gain and cost of one pass, mini-GOP after mini-GOP."""

    def __init__(self, curve: RdCurve, episode: MiniGopEpisode) -> None:
        self._curve, self._episode = curve, episode
        self._share_bits: list[float] = (curve.bits * (episode.budget_bits / curve.bits.sum())).tolist()
        lift = curve.psnr_at(episode.budget_bits) - curve.psnr_y.sum() / curve.frames
        frames = curve.frames / len(curve.psnr_y)
        self._share_psnr: list[float] = (curve.psnr_y + lift * frames).tolist()
        self.bits: float = sum(self._share_bits)
        self._psnr: float = sum(self._share_psnr)
        self._gain = self._measure()
        self._excess = 0.0
        self.level_bits = 0.0  # of the leaky bucket

    @property
    def rate_error(self) -> float:
        """Bits of the clip, as far as they are known, over the budget, less one."""
        return self.bits / self._episode.budget_bits - 1

    def add(self, feedback: MiniGopFeedback) -> tuple[float, float]:
        """Reward and cost of one more mini-GOP."""
        self.bits += feedback.bits - self._share_bits[feedback.mg]
        self._psnr += feedback.psnr_y * feedback.frames - self._share_psnr[feedback.mg]
        gain, excess = self._measure(), self._excess + self._overflow(feedback)
        if self._episode.goal == "vbr":
            excess = max(self.rate_error, 0.0)
        reward, cost = gain - self._gain, excess - self._excess
        self._gain, self._excess = gain, excess
        return reward, cost

    def _measure(self) -> float:
        return self._psnr / self._curve.frames - self._curve.psnr_at(self.bits)

    def _overflow(self, feedback: MiniGopFeedback) -> float:
        """Fill the bucket, drain it at the rate; what does not fit flows over."""
        episode = self._episode
        size = episode.buffer_s * episode.kbps * 1000
        drained = feedback.frames * episode.kbps * 1000 / float(episode.fps)
        level = max(self.level_bits + feedback.bits - drained, 0.0)
        self.level_bits = min(level, size)
        return (level - self.level_bits) / size
