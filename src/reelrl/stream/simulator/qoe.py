"""Quality of experience: what a chunk is worth to the viewer.

    reward = utility - rebuf_penalty * stall_s - smooth_penalty * |utility - last utility|

The variants differ only in the utility of a rung, and in the penalty that goes with its scale:

    linear   Mbit/s                            4.3 per stalled second
    scaled   4.3 x share of the highest rate   4.3: what `linear` is on Pensieve's ladder, for any other
    log      ln(rate / lowest rate)            2.66
    hd       steps at HD resolutions           8
    vmaf, psnr, ssim   per-segment score of the ladder, scaled so that the best segment is worth 4.3
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.data.ladders import PENSIEVE_KBPS, QUALITY_NAMES, Video

Floats = npt.NDArray[np.float64]

DEFAULT_REBUF_PENALTY = 4.3
DEFAULT_SMOOTH_PENALTY = 1.0
_PENALTIES = {"linear": DEFAULT_REBUF_PENALTY, "scaled": DEFAULT_REBUF_PENALTY, "log": 2.66, "hd": 8.0} | dict.fromkeys(
    QUALITY_NAMES, DEFAULT_REBUF_PENALTY
)
_HD_SCORES = (1.0, 2.0, 3.0, 12.0, 15.0, 20.0)


def chunk_reward(
    utility: float, last_utility: float, stall_s: float, rebuf_penalty: float, smooth_penalty: float
) -> float:
    """What one chunk is worth: its quality, less the stall before it, less the change from the chunk before.

    Like the network rule in the subset of Python that numba compiles: every execution of the simulator uses this one.
    """
    return utility - rebuf_penalty * stall_s - smooth_penalty * abs(utility - last_utility)


@dataclass(frozen=True, kw_only=True)
class Qoe:
    """A variant and its two penalties; `rebuf_penalty=None` takes the variant's own."""

    variant: str = "linear"
    rebuf_penalty: float | None = None
    smooth_penalty: float = DEFAULT_SMOOTH_PENALTY

    def __post_init__(self) -> None:
        if self.variant not in _PENALTIES:
            raise ConfigError(f"qoe = {self.variant!r} is unknown; choose one of {', '.join(_PENALTIES)}")
        for name in ("rebuf_penalty", "smooth_penalty"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} = {value}; it must be finite and 0 or more")

    @property
    def stall_penalty(self) -> float:
        """Cost of one second without a picture."""
        return _PENALTIES[self.variant] if self.rebuf_penalty is None else self.rebuf_penalty

    def utilities(self, video: Video) -> Floats:
        """The worth of each segment at each rung, (chunks, rungs)."""
        if self.variant in QUALITY_NAMES:
            return _scored(self.variant, video)
        if self.variant == "log":
            row = np.log(video.bitrates_kbps / video.bitrates_kbps[0])
        elif self.variant == "scaled":
            # A second of stall costs as much as a chunk of the best rung; at 4.3 per Mbit/s stalling would pay in 4K.
            row = video.bitrates_kbps / video.bitrates_kbps[-1] * DEFAULT_REBUF_PENALTY
        elif self.variant == "hd":
            # Published for Pensieve's six rungs; other ladders read between them.
            row = np.interp(video.bitrates_kbps, PENSIEVE_KBPS, _HD_SCORES)
        else:
            row = video.bitrates_kbps / 1000.0
        return np.tile(row, (video.chunks, 1))


def _scored(variant: str, video: Video) -> Floats:
    if variant not in video.quality:
        raise ConfigError(
            f"qoe = {variant!r} needs per-segment scores, and the ladder carries "
            f"{sorted(video.quality) or 'none'}; encode it with `reel ladder`"
        )
    scores = video.quality[variant]
    if not scores.max() > 0:
        raise ConfigError(f"qoe = {variant!r}: the ladder's best score is {scores.max():g}; it must be above 0")
    scaled: Floats = scores * (DEFAULT_REBUF_PENALTY / float(scores.max()))
    return scaled


def as_qoe(
    qoe: Qoe | str, rebuf_penalty: float = DEFAULT_REBUF_PENALTY, smooth_penalty: float = DEFAULT_SMOOTH_PENALTY
) -> Qoe:
    """A variant by name. A penalty left at the linear default becomes the variant's own."""
    if isinstance(qoe, Qoe):
        return qoe
    penalty = None if rebuf_penalty == DEFAULT_REBUF_PENALTY else rebuf_penalty
    return Qoe(variant=qoe, rebuf_penalty=penalty, smooth_penalty=smooth_penalty)
