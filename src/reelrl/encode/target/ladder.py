"""Rungs near the convex hull: for each quality the size and CRF that take the fewest bits, without a grid of encodes.

    clip ──► sizes_of ──► three encodes of each size ──► SizeCurve (quality at full size and kbit/s) ──► choose_rungs

A smaller picture loses detail before it is coded, and is enlarged again by the player: its quality is judged at the
size of the source. The model knows how the quality of a size by itself falls with CRF; how that looks at full size is
read off the same encodes, with lines between them. Of a long video, stretches are encoded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelrl.content.scaling import scaled, scaled_clip
from reelrl.encode.codecs.whole_clip import encode_packets
from reelrl.encode.target.lessons import BITS, KNOTS, SETTINGS
from reelrl.encode.target.measured import at_crf
from reelrl.encode.target.model import CRFS, FileBelief
from reelrl.encode.target.probe import FASTEST_NEEDED, frames_to_check
from reelrl.encode.target.scene_features import clip_pairs, scene_features
from reelrl.encode.target.scores import frame_scores
from reelrl.encode.target.search import CHECK_DOUBT
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.target.model import FigureModel, SceneBelief

SHARES = (1.0, 2 / 3, 1 / 2, 1 / 3)
"""Sides of the pictures, as shares of the source's."""

FIGURE = "vmaf.mean"
STRETCH, MOST_STRETCHES = 48, 8  # frames; of a video
_SPACING = 480  # frames from one stretch to the next, as long as there are few
_LEAST_HEIGHT = 144
_AIMED_AT = (93.0, 80.0, 64.0)  # VMAF of a size by itself: between them lies most of what ladders ask of it
ENCODES = len(_AIMED_AT)
"""Of each size."""

_LEAST_APART = 5.0  # CRF of two encodes


@dataclass(frozen=True)
class TargetRung:
    """One rung: its pictures' size and CRF, and what it is expected to give at full size and to take."""

    width: int
    height: int
    crf: float
    expected: float
    kbps: float


@dataclass(frozen=True)
class SizeCurve:
    """Quality at full size and kbit/s at each of `CRFS`, of pictures coded at one size."""

    width: int
    height: int
    quality: NDArray[np.float64]
    kbps: NDArray[np.float64]


@dataclass(frozen=True)
class SizeSample:
    """One encode of a size: its VMAF by itself and at full size, and the log2 of its bits per pixel."""

    crf: float
    own: float
    shown: float
    bits: float


def targets_between(low: float, high: float, rungs: int) -> list[float]:
    """So many qualities, evenly spread, both ends among them."""
    if rungs < 2 or not low < high:
        raise ConfigError(f"{rungs} rungs from {low:g} to {high:g}; give at least 2, and a range that rises")
    spread: list[float] = np.linspace(low, high, rungs).tolist()
    return spread


def sizes_of(width: int, height: int) -> list[tuple[int, int]]:
    """Sizes to choose from, the source's first: even, and of exactly its shape, as a set of rungs in DASH must be."""
    common = math.gcd(width, height)
    even = 1 if width // common % 2 == height // common % 2 == 0 else 2
    units = common // even
    smaller = [round(share * units) for share in SHARES[1:]]
    sizes = [(width * each // units, height * each // units) for each in smaller if 0 < each < units]
    return [(width, height), *(size for size in sizes if size[1] >= _LEAST_HEIGHT)]


def choose_rungs(curves: Sequence[SizeCurve], targets: Sequence[float]) -> list[TargetRung]:
    """For each target, of the sizes that reach it the one that takes the fewest bits; the lowest rung first.

    A target that none reaches gives the best there is, once: rungs rise in bits and quality.
    """
    rungs: list[TargetRung] = []
    for target in sorted(targets):
        choices = [_rung(curve, at) for curve in curves if (at := _highest_crf(curve.quality, target)) is not None]
        if choices:
            rung = min(choices, key=lambda each: each.kbps)
        else:
            rung = max(
                (_rung(curve, int(np.argmax(curve.quality))) for curve in curves), key=lambda each: each.expected
            )
        if not rungs or (rung.kbps > rungs[-1].kbps and rung.expected > rungs[-1].expected):
            rungs.append(rung)
    return rungs


def size_curves(
    clip: Clip, models: Mapping[str, FigureModel], preset: int, encoded: Callable[[], None] = lambda: None
) -> list[SizeCurve]:
    """What a clip gives and takes at each size, by three encodes each; sizes teach each other what features leave."""
    fast = max(preset, FASTEST_NEEDED)  # the model knows how slower ones differ
    stretches = [clip.window(first, count).load() for first, count in _stretches(clip.frame_count)]
    files = {name: FileBelief(models[name]) for name in (FIGURE, BITS)}
    curves = []
    for width, height in sizes_of(clip.width, clip.height):
        smaller = [scaled_clip(stretch, width, height).load() for stretch in stretches]
        features = scene_features([pair for each in smaller for pair in clip_pairs(each)], float(clip.fps))
        beliefs = {name: file.scene(features) for name, file in files.items()}
        samples: list[SizeSample] = []
        for wanted in _AIMED_AT:
            crf = _next_crf(beliefs[FIGURE], fast, wanted, samples)
            samples.append(_sample(stretches, smaller, fast, crf))
            beliefs[FIGURE].observe_encode(fast, crf, samples[-1].own, CHECK_DOUBT)
            beliefs[BITS].observe_encode(fast, crf, samples[-1].bits, 0.0)
            encoded()
        for name, file in files.items():
            file.learn(beliefs[name])
        rates = 2 ** beliefs[BITS].curve(preset)[0] * width * height * float(clip.fps) / 1000
        curves.append(SizeCurve(width, height, _at_full_size(beliefs[FIGURE].curve(preset)[0], samples), rates))
    return curves


def _next_crf(belief: SceneBelief, preset: int, wanted: float, before: Sequence[SizeSample]) -> float:
    """Where the size by itself is expected to have this VMAF, apart from the encodes before."""
    crf = float(round(CRFS[int(np.argmin(np.abs(belief.curve(preset)[0] - wanted)))]))
    free = [each for each in range(KNOTS[0], KNOTS[-1] + 1) if _apart(each, before)]
    return float(min(free, key=lambda each: abs(each - crf)))


def _apart(crf: float, before: Sequence[SizeSample]) -> bool:
    return all(abs(crf - sample.crf) >= _LEAST_APART for sample in before)


def _sample(stretches: Sequence[Clip], smaller: Sequence[Clip], preset: int, crf: float) -> SizeSample:
    """The stretches coded at their smaller size, scored as they are and enlarged."""
    own: list[float] = []
    shown: list[float] = []
    size_bytes = pixels = 0
    for full, small in zip(stretches, smaller, strict=True):
        settings = at_crf(replace(SETTINGS, preset=preset, psnr=False).for_clip(small), crf)
        packets = list(encode_packets(small, settings))
        coded = [packet.recon for packet in packets if packet.recon is not None]
        size_bytes += sum(packet.size for packet in packets)
        pixels += small.width * small.height * small.frame_count
        numbers = frames_to_check(small.frame_count)
        own += frame_scores("vmaf", numbers, list(small), coded).tolist()
        if (small.width, small.height) != (full.width, full.height):
            enlarged = [scaled(frame, full.width, full.height) for frame in coded]
            shown += frame_scores("vmaf", numbers, list(full), enlarged).tolist()
    return SizeSample(crf, float(np.mean(own)), float(np.mean(shown or own)), float(np.log2(8 * size_bytes / pixels)))


def _at_full_size(quality: NDArray[np.float64], samples: Sequence[SizeSample]) -> NDArray[np.float64]:
    """What the quality of a size by itself is at full size: lines through the samples, as steep beyond them."""
    known = sorted(samples, key=lambda sample: sample.own)
    own, shown = np.array([each.own for each in known]), np.array([each.shown for each in known])
    slopes = np.diff(shown) / np.maximum(np.diff(own), 0.1)
    result: NDArray[np.float64] = np.interp(quality, own, shown)
    result += slopes[0] * np.minimum(quality - own[0], 0) + slopes[-1] * np.maximum(quality - own[-1], 0)
    return np.clip(result, 0, 100)


def _stretches(frames: int) -> list[tuple[int, int]]:
    """(first frame, frames) of what is encoded: all of a short video, else the middle of each share."""
    if frames <= 2 * STRETCH:
        return [(0, frames)]
    count = min(max(2, round(frames / _SPACING)), MOST_STRETCHES)
    share = frames / count
    return [(int(share * place + (share - STRETCH) / 2), STRETCH) for place in range(count)]


def _highest_crf(quality: NDArray[np.float64], target: float) -> int | None:
    reached = np.flatnonzero(np.minimum.accumulate(quality) >= target)
    return int(reached[-1]) if len(reached) else None


def _rung(curve: SizeCurve, at: int) -> TargetRung:
    return TargetRung(curve.width, curve.height, float(CRFS[at]), float(curve.quality[at]), float(curve.kbps[at]))
