"""What the source of a scene says before anything is encoded, from a few pairs of neighbouring pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from reelrl.encode.features import GRADIENT, LUMA_MEAN, LUMA_VARIANCE, FeatureExtractor, analyse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame

NAMES = (
    "pixels",  # log2 of a picture's, over 640x360
    "fps",  # log2 over 30
    "luma",  # mean, 0 to 1
    "texture",  # log2 of the mean gradient
    "contrast",  # log2 of the superblocks' mean standard deviation
    "unevenness",  # how much the texture differs from superblock to superblock, log2 of the relative spread
    "flat",  # share of superblocks with hardly any texture
    "detail",  # log2 of what blurring takes away, over the gradient: noise and grain have much
    "change",  # log2 of the difference that motion leaves between neighbouring pictures
    "change_ratio",  # the same over the gradient
    "motion",  # log2 of the mean motion vector in pixels, over the picture's width
)
PAIRS = 3
_FLAT = 2.0  # levels of gradient


def scene_features(pairs: Sequence[tuple[Frame, Frame]], fps: float) -> NDArray[np.float64]:
    """One number for each of `NAMES`: means over the pairs."""
    width, height = pairs[0][0].width, pairs[0][0].height
    rows = np.array([_pair_features(*pair) for pair in pairs])
    fixed = [np.log2(width * height / (640 * 360)), np.log2(fps / 30)]
    return np.concatenate([fixed, rows.mean(axis=0)])


def pair_places(frames: int) -> list[int]:
    """The first frame of each pair, spread over a scene of at least two frames."""
    count = min(PAIRS, frames - 1)
    return [int((place + 0.5) * (frames - 1) / count) for place in range(count)]


def clip_pairs(scene: Clip) -> list[tuple[Frame, Frame]]:
    """The pairs of a scene that is a clip; one frame alone is its own neighbour."""
    if scene.frame_count == 1:
        only = next(iter(scene))
        return [(only, only)]
    places = set(pair_places(scene.frame_count))
    wanted = {n: frame for n, frame in enumerate(scene) if n in places or n - 1 in places}
    return [(wanted[n], wanted[n + 1]) for n in sorted(places)]


def _pair_features(before: Frame, after: Frame) -> list[float]:
    extractor = FeatureExtractor(after.width, after.height)
    extractor.extract(before)
    features = extractor.extract(after)
    frame = analyse(features, after.width, after.height)
    gradient = features[GRADIENT].astype(np.float64)
    texture = float(gradient.mean())
    luma = after.at_depth(8).y
    residual = cv2.absdiff(luma, cv2.GaussianBlur(luma, (3, 3), 0.8))
    contrast = float(np.sqrt(np.maximum(features[LUMA_VARIANCE], 0)).mean())
    change = float(frame.inter_energy)
    return [
        float(features[LUMA_MEAN].mean()) / 255,
        _log2(texture, 0.1),
        _log2(contrast, 0.5),
        _log2(float(gradient.std()) / (texture + 0.1), 0.05),
        float((gradient < _FLAT).mean()),
        _log2(float(residual.mean()) / (texture + 0.1), 0.01),
        _log2(change, 0.02),
        _log2(change / (texture + 0.1), 0.005),
        _log2(float(frame.motion) / after.width * 640, 0.05),
    ]


def _log2(value: float, least: float) -> float:
    return float(np.log2(value + least))
