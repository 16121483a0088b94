"""What a coded frame is worth. A reward is a function of its `Outcome`; users pass their own the same way.

def reward(outcome: Outcome) -> float:
    return outcome.psnr[0] - outcome.baseline_psnr[0] - 0.001 * outcome.size_bytes
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelrl import names
from reelrl.content.frame import Frame
from reelrl.encode.codecs.block_ssim import picture_ssim
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.superblock.block_error import block_sse
from reelrl.encode.superblock.weighting import WEIGHINGS, WeightMaps, weigh_clip, weighted_psnr
from reelrl.errors import ConfigError

__all__ = ["REWARDS", "WEIGHINGS", "Outcome", "Reward", "WeightMaps", "weigh_clip", "weighted_psnr"]

DEFAULT_LAMBDA = 0.1
_DB_PER_NEPER = 10 / math.log(10)

Scores = tuple[float, float, float]


class Trade(NamedTuple):
    """What bits are worth in a clip, by its baseline and the same some QP steps coarser.

    db_per_octave  luma PSNR lost by halving the bytes, the mean of both ways to average PSNR
    mean_bytes     of a frame
    mean_error     of a pixel, in peaks squared
    """

    db_per_octave: float
    mean_bytes: float
    mean_error: float


@dataclass(eq=False)
class Outcome:
    """One coded frame beside what the baseline, which sends no maps, made of it.

    psnr       per plane Y, Cb, Cr in dB
    offsets    QP steps per superblock that were sent; zeros where no map was
    weights    the pixels' weights, or None where the environment has none
    trade      what bits are worth in this clip, where whole frames may be moved
    `ssim`, `block_sse` and `weighted_psnr` are measured when they are asked for.
    """

    number: int
    frame_type: FrameType
    qp: int
    size_bytes: int
    psnr: Scores
    offsets: NDArray[np.int32]
    baseline_size_bytes: int
    baseline_psnr: Scores
    baseline_ssim: Scores
    lambda_rd: float
    source: Frame
    recon: Frame
    weights: NDArray[np.uint8] | None = None
    baseline_weighted_psnr: float | None = None
    trade: Trade | None = None

    @cached_property
    def ssim(self) -> Scores:
        """SSIM per plane Y, Cb, Cr."""
        return picture_ssim(self.source.planes, self.recon.planes)

    @cached_property
    def block_sse(self) -> NDArray[np.int64]:
        """Luma error of each superblock."""
        errors: NDArray[np.int64] = block_sse(self.source.y, self.recon.y)
        return errors

    @cached_property
    def weighted_psnr(self) -> float:
        """Luma PSNR under the weights, in dB."""
        return weighted_psnr(self.source, self.recon, self._weights)

    @property
    def _weights(self) -> NDArray[np.uint8]:
        if self.weights is None:
            raise ConfigError("there are no weights; make the environment with weights= (moving, centre, detail, ...)")
        return self.weights


Reward = Callable[[Outcome], float]


def psnr_gain(outcome: Outcome) -> float:
    """Luma PSNR above the baseline's, in dB."""
    return outcome.psnr[0] - outcome.baseline_psnr[0]


def rd(outcome: Outcome) -> float:
    """PSNR gained in all planes and bytes saved: Y + Cb/2 + Cr/2 + 2 saved/spent at the default lambda."""
    y, cb, cr = (ours - theirs for ours, theirs in zip(outcome.psnr, outcome.baseline_psnr, strict=True))
    saved = (outcome.baseline_size_bytes - outcome.size_bytes) / outcome.size_bytes
    return y + 0.5 * cb + 0.5 * cr + 2 * outcome.lambda_rd / DEFAULT_LAMBDA * saved


def ssim_gain(outcome: Outcome) -> float:
    """Luma SSIM above the baseline's."""
    return outcome.ssim[0] - outcome.baseline_ssim[0]


def weighted_gain(outcome: Outcome) -> float:
    """Weighted luma PSNR above the baseline's, in dB."""
    theirs = outcome.baseline_weighted_psnr
    return outcome.weighted_psnr - (theirs if theirs is not None else 0.0)


def equal_rate(outcome: Outcome) -> float:
    """Luma dB above the baseline's less what the bytes spent more are worth: over an episode, dB at equal rate.

    Half of it is the gain in the mean of PSNRs, half that in the PSNR of the mean error: by the first alone it would
    pay to starve the hard frames.
    """
    trade = outcome.trade
    if trade is None:
        raise ConfigError("reward equal_rate knows what bits are worth with an action over time only: action=map+time")
    ours, theirs = outcome.psnr[0], outcome.baseline_psnr[0]
    error = (10 ** (-theirs / 10) - 10 ** (-ours / 10)) / trade.mean_error
    spent = (outcome.size_bytes - outcome.baseline_size_bytes) / trade.mean_bytes
    return (ours - theirs + _DB_PER_NEPER * error) / 2 - trade.db_per_octave / math.log(2) * spent


REWARDS: dict[str, Reward] = {
    "psnr_gain": psnr_gain,
    "rd": rd,
    "ssim": ssim_gain,
    "weighted": weighted_gain,
    "equal_rate": equal_rate,
}


PAY_FOR_BYTES = ("psnr_gain", "rd", "ssim", "weighted")
"""Rewards that grow when a whole frame is coded finer, whatever it costs; in `rd` two dB outweigh all its bytes."""


def reward_of(reward: str | Reward) -> Reward:
    """A reward by name, as "package.module:function", or the function itself."""
    if isinstance(reward, str):
        if reward in REWARDS:
            return REWARDS[reward]
        if ":" in reward:
            foreign: Reward = names.resolve({}, reward, foreign=True)
            return foreign
        raise ConfigError(f"unknown reward {reward!r}{names.did_you_mean(reward, REWARDS)}")
    if not callable(reward):
        raise ConfigError(f"reward is a {type(reward).__name__}; give a name or a function of an Outcome")
    return reward


def checked_lambda(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"lambda_rd = {value}; it is finite and not negative")
    return float(value)
