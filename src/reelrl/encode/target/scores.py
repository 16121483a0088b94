"""How good coded frames are, by the metrics that can be a target, and how the frames of a scene become one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.quality import psnr_from_sse, sse, vmaf, vmaf_at
from reelrl.content.xpsnr import xpsnr
from reelrl.encode.codecs.block_ssim import picture_ssim
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from reelrl.content.frame import Frame

METRICS = ("vmaf", "psnr", "ssim", "xpsnr")
_ANY_LENGTH_S = 7 * 86400.0
POOLS = ("mean", "harmonic", "p5", "p1")


def frame_scores(
    metric: str, numbers: Sequence[int], source: Sequence[Frame], coded: Sequence[Frame]
) -> NDArray[np.float64]:
    """The score of each of these frames; without numbers, of all.

    VMAF and XPSNR look at neighbours too, so pass whole stretches of frames.
    """
    if len(numbers) in (0, len(source)):
        return all_scores(metric, source, coded)
    return np.asarray(_SCORERS[metric](numbers, source, coded), np.float64)


def all_scores(metric: str, source: Iterable[Frame], coded: Iterable[Frame]) -> NDArray[np.float64]:
    """The score of every frame of a video of any length."""
    if metric == "vmaf":
        return np.array(vmaf(source, coded, deadline_s=_ANY_LENGTH_S))
    if metric == "xpsnr":
        return np.array(xpsnr(source, coded))
    pairs = zip(source, coded, strict=True)
    return np.array([_SCORERS[metric]((0,), (wanted,), (got,))[0] for wanted, got in pairs])


def pooled(scores: NDArray[np.float64], pool: str) -> float:
    """One figure for a scene. `p5` is the 5th percentile of its frames, `harmonic` weighs bad frames more."""
    if pool == "mean":
        return float(scores.mean())
    if pool == "harmonic":
        # As libvmaf pools: one is added, so that a frame of score 0 does not make the whole 0.
        return float(1 / np.mean(1 / (1 + np.maximum(scores, 0))) - 1)
    return float(np.percentile(scores, int(pool[1:])))


def check_metric(metric: str) -> None:
    if metric == "ssimulacra2":
        raise ConfigError(
            "target ssimulacra2: it is in no maintained wheel and in no filter of PyAV; use vmaf or xpsnr"
        )
    if metric not in METRICS:
        raise ConfigError(f"unknown metric {metric!r} of a target; use one of {', '.join(METRICS)}")


def _psnr(numbers: Sequence[int], source: Sequence[Frame], coded: Sequence[Frame]) -> list[float]:
    pixels = source[0].width * source[0].height
    return [psnr_from_sse(sse(source[n].y, coded[n].y), pixels, depth=source[n].depth) for n in numbers]


def _ssim(numbers: Sequence[int], source: Sequence[Frame], coded: Sequence[Frame]) -> list[float]:
    return [picture_ssim(source[n].planes, coded[n].planes)[0] for n in numbers]


def _xpsnr(numbers: Sequence[int], source: Sequence[Frame], coded: Sequence[Frame]) -> list[float]:
    scores = xpsnr(source, coded)
    return [scores[n] for n in numbers]


_SCORERS: dict[str, Callable[[Sequence[int], Sequence[Frame], Sequence[Frame]], list[float]]] = {
    "vmaf": vmaf_at,
    "psnr": _psnr,
    "ssim": _ssim,
    "xpsnr": _xpsnr,
}
