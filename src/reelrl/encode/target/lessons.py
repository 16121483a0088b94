"""What one scene teaches: its features, what probes of it say, and what it truly is at several CRFs and presets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.target.measured import cpu_s, measured, thirds
from reelrl.encode.target.probe import probe, windows
from reelrl.encode.target.scene_features import clip_pairs, scene_features
from reelrl.encode.target.scores import METRICS, POOLS, pooled

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.target.measured import MeasuredEncode

PROBE = "probe"
BITS = "bits"

KNOTS = (16, 28, 39, 50, 61)
"""CRFs between which curves are drawn."""

SETTINGS = replace(RANDOM_ACCESS, keyint=-1, deadline_s=600.0)
"""How scenes are coded: one key frame each. Presets and CRFs come from the plan; a slow one may take its time."""


@dataclass(frozen=True)
class CurvePoint:
    """One encode of a scene: by which encoder (`PROBE`, or a preset as text), at which CRF, and what came out.

    figures       by name: "vmaf.mean" and the like, and "bits", the log2 of bits per pixel
    encode_cpu_s  what coding took
    score_cpu_s   what scoring took, by metric
    """

    encoder: str
    crf: float
    figures: dict[str, float]
    encode_cpu_s: float
    score_cpu_s: dict[str, float]


@dataclass(frozen=True)
class Lesson:
    """All that is known of one scene."""

    name: str
    source: str
    width: int
    height: int
    frames: int
    fps: float
    features: list[float]
    feature_cpu_s: float
    points: list[CurvePoint] = field(default_factory=list)

    def curve(self, encoder: str, figure: str) -> tuple[np.ndarray, np.ndarray]:
        """(CRFs, figures) by one encoder, in the order of CRFs."""
        found = sorted((p.crf, p.figures[figure]) for p in self.points if p.encoder == encoder and figure in p.figures)
        return np.array([crf for crf, _ in found]), np.array([value for _, value in found])


@dataclass(frozen=True)
class LessonPlan:
    """Which encodes are made of each scene: CRFs of probes, and by preset CRFs of the whole scene."""

    probes: tuple[float, ...] = KNOTS
    presets: dict[str, tuple[float, ...]] = field(default_factory=lambda: {"8": KNOTS, "4": (28, 39, 50)})
    metrics: tuple[str, ...] = METRICS


def lesson_of(scene: Clip, plan: LessonPlan) -> Lesson:
    """Measure a scene; what is cached is not measured again."""
    scene = scene.load()
    settings = SETTINGS.for_clip(scene)
    begin_s = cpu_s()
    features = scene_features(clip_pairs(scene), float(scene.fps))
    feature_cpu_s = cpu_s() - begin_s
    stretches = [scene.window(first, count).load() for first, count in windows(scene.frame_count)]
    points = [probe_point(stretches, settings, crf, plan.metrics) for crf in plan.probes]
    for preset, crfs in plan.presets.items():
        points += [whole_point(scene, replace(settings, preset=int(preset)), crf, plan.metrics) for crf in crfs]
    return Lesson(
        name=scene.name,
        source=scene.source,
        width=scene.width,
        height=scene.height,
        frames=scene.frame_count,
        fps=float(scene.fps),
        features=features.tolist(),
        feature_cpu_s=feature_cpu_s,
        points=points,
    )


def probe_point(stretches: list[Clip], settings: EncoderSettings, crf: float, metrics: tuple[str, ...]) -> CurvePoint:
    """A probe of a scene as a point."""
    return point_of(PROBE, crf, probe(stretches, settings, crf, metrics), settings, metrics)


def whole_point(
    scene: Clip,
    settings: EncoderSettings,
    crf: float,
    metrics: tuple[str, ...],
    numbers: tuple[int, ...] | None = None,
) -> CurvePoint:
    """A whole scene as a point; every third frame is scored unless `numbers` say which."""
    encode = measured([scene], settings, crf, numbers or thirds(scene.frame_count), metrics)
    return point_of(str(settings.preset), crf, encode, settings, metrics)


def point_of(
    encoder: str, crf: float, encode: MeasuredEncode, settings: EncoderSettings, metrics: tuple[str, ...]
) -> CurvePoint:
    """An encode as a point of its scene's curves."""
    pixels = settings.width * settings.height * len(encode.frame_bytes)
    figures = {BITS: float(np.log2(8 * encode.size_bytes / pixels))}
    for metric in metrics:
        figures |= {f"{metric}.{pool}": pooled(encode.scores(metric), pool) for pool in POOLS}
    return CurvePoint(
        encoder=encoder,
        crf=float(crf),
        figures=figures,
        encode_cpu_s=encode.encode_cpu_s,
        score_cpu_s=dict(zip(METRICS, encode.score_cpu_s.tolist(), strict=True)),
    )
