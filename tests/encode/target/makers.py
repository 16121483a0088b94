"""Lessons without an encoder: scenes whose curves follow a known rule."""

from __future__ import annotations

import numpy as np

from reelrl.encode.target.lessons import BITS, KNOTS, PROBE, CurvePoint, Lesson
from reelrl.encode.target.model import evened
from reelrl.encode.target.scene_features import NAMES

COSTS = {"vmaf": 0.1, "psnr": 0.0, "ssim": 0.0, "xpsnr": 0.0}


def vmaf_of(crf: float, hardness: float) -> float:
    """A curve as real ones are: flat near 100 at low CRF, then falling faster and faster."""
    return float(100 - 1.5 * np.exp((evened(crf) - 30 + 6 * hardness) / 11))


def lesson(
    name: str, source: str, features: np.ndarray, hardness: float, *, presets: dict[str, tuple[int, ...]] | None = None
) -> Lesson:
    """A scene of this hardness; a probe reads a little lower than the whole."""
    presets = {"8": KNOTS, "4": (30, 50)} if presets is None else presets
    encoders = {PROBE: KNOTS, **presets}
    better = {PROBE: -0.1, "8": 0.0, "4": 0.1}
    points = [
        CurvePoint(
            encoder,
            float(crf),
            {"vmaf.mean": vmaf_of(crf, hardness - better[encoder]), BITS: -2 - crf / 10 + hardness},
            {"8": 1.0, "4": 3.0, PROBE: 0.2}[encoder],
            COSTS,
        )
        for encoder, crfs in encoders.items()
        for crf in crfs
    ]
    return Lesson(name, source, 640, 360, 48, 30.0, features.tolist(), 0.01, points)


def lessons(count: int, seed: int = 0, scenes_of_each: int = 3) -> list[Lesson]:
    """Scenes whose hardness is in their texture, with a part that a source has in common and a part of their own."""
    rng = np.random.default_rng(seed)
    made = []
    for source in range(count):
        common = 0.3 * rng.normal()
        for scene in range(scenes_of_each):
            features = rng.normal(size=len(NAMES))
            hardness = 0.5 * features[3] + common + 0.1 * rng.normal()
            made.append(lesson(f"{source}-{scene}", str(source), features, hardness))
    return made
