"""Where searchers get their answers from in an evaluation: curves that were measured before, or encodes made for it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reelrl.encode.codecs.decoding import decoded
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, PROBE, SETTINGS, CurvePoint, Lesson, point_of, probe_point, whole_point
from reelrl.encode.target.levels import Stretch, mean_crf
from reelrl.encode.target.measured import cpu_s, measured
from reelrl.encode.target.model import from_scale, to_scale
from reelrl.encode.target.probe import frames_to_check, scored, windows
from reelrl.encode.target.scores import METRICS, POOLS, all_scores, pooled
from reelrl.encode.target.search import CHECK_DOUBT
from reelrl.encode.target.spline import spline_weights
from reelrl.encode.target.steering import steered_to_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.content.clip import Clip
    from reelrl.encode.target.search import SceneSearch


class Laboratory(Protocol):
    """Answers about scenes, as points with figures and CPU time."""

    def probe(self, lesson: Lesson, crf: float, metric: str) -> CurvePoint: ...

    def whole(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint: ...

    def check(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint:
        """A few frames of a finished encode: its `encode_cpu_s` is what decoding it takes."""
        ...

    def steered(self, lesson: Lesson, search: SceneSearch, crf: float) -> SteeredPoint | None:
        """The scene steered to the target of the search; None where it can't be, or is not made here."""
        ...

    def of_scenes(self, names: Sequence[str]) -> Laboratory:
        """The same for these scenes alone: what travels with their tasks."""
        ...


@dataclass(frozen=True)
class SteeredPoint:
    """A steered encode: what all of its frames have; CPU of its scores and of encodes that do not stay; what was scored
    of each encode; and the scene at the same CRF on average, not steered.
    """

    point: CurvePoint
    search_cpu_s: float
    encodes: list[list[Stretch]]
    plain: CurvePoint


DECODING = 0.04
"""CPU of decoding a scene over that of its encode at preset 8, the fastest that is judged."""


class MeasuredCurves:
    """Reads answers off the curves of the lessons: no encode is made.

    Between measured CRFs the figures follow a cubic in the model's scale. Preset 4 was measured at fewer CRFs: there
    the difference to preset 8 is read off, on a line.
    """

    def probe(self, lesson: Lesson, crf: float, metric: str) -> CurvePoint:
        return self._read(lesson, PROBE, crf, metric)

    def whole(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint:
        read = self._read(lesson, "8", crf, metric)
        if preset == 8:
            return read
        figures = {}
        for figure, value in read.figures.items():
            crfs, slow = lesson.curve(str(preset), figure)
            fast = np.array([_at(lesson, "8", figure, each) for each in crfs])
            differences = to_scale(figure, slow) - to_scale(figure, fast)
            moved = to_scale(figure, value) + np.interp(crf, crfs, differences)
            figures[figure] = float(from_scale(figure, moved))
        points = [point for point in lesson.points if point.encoder == str(preset)]
        return CurvePoint(str(preset), crf, figures, *_costs(points, crf))

    def check(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint:
        """What the whole scene has, with an error as large as that of a few frames; the same each time."""
        point = _as_check(self.whole(lesson, preset, crf, metric), lesson)
        error = np.random.default_rng(zlib.crc32(f"{lesson.name} {crf:g}".encode())).normal(0, CHECK_DOUBT)
        near = QualityTarget(metric, 30.0 if metric != "ssim" else 0.9).near
        read = {name: value + (error * near if name != BITS else 0) for name, value in point.figures.items()}
        return replace(point, figures=read)

    def steered(self, lesson: Lesson, search: SceneSearch, crf: float) -> SteeredPoint | None:  # noqa: ARG002
        return None

    def of_scenes(self, names: Sequence[str]) -> Laboratory:  # noqa: ARG002 - curves are the lessons' own
        return self

    def _read(self, lesson: Lesson, encoder: str, crf: float, metric: str) -> CurvePoint:
        points = [point for point in lesson.points if point.encoder == encoder]
        names = [name for name in points[0].figures if name.partition(".")[0] in (metric, "bits")]
        return CurvePoint(encoder, crf, {name: _at(lesson, encoder, name, crf) for name in names}, *_costs(points, crf))


class RealEncodes:
    """Makes the probes and encodes that searchers ask for, from the scenes themselves; all frames are scored."""

    def __init__(self, scenes: Mapping[str, Clip]) -> None:
        self._scenes = scenes
        self._held: tuple[str, Clip] | None = None

    def probe(self, lesson: Lesson, crf: float, metric: str) -> CurvePoint:
        scene = self._scene(lesson)
        stretches = [scene.window(first, count).load() for first, count in windows(scene.frame_count)]
        return probe_point(stretches, SETTINGS.for_clip(scene), crf, (metric,))

    def whole(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint:
        scene = self._scene(lesson)
        everything = tuple(range(scene.frame_count))
        return whole_point(scene, replace(SETTINGS, preset=preset).for_clip(scene), crf, (metric,), everything)

    def check(self, lesson: Lesson, preset: int, crf: float, metric: str) -> CurvePoint:
        scene = self._scene(lesson)
        settings = replace(SETTINGS, preset=preset).for_clip(scene)
        everything = tuple(range(scene.frame_count))
        encode = measured([scene], settings, crf, everything, (metric,))  # that of `whole`, from the cache
        chosen: dict[str, Any] = {metric: encode.scores(metric)[list(frames_to_check(scene.frame_count))]}
        few = replace(encode, **chosen)
        return _as_check(point_of(str(preset), crf, few, settings, (metric,)), lesson)

    def steered(self, lesson: Lesson, search: SceneSearch, crf: float) -> SteeredPoint | None:
        scene, target = self._scene(lesson), search.target
        settings = replace(SETTINGS, preset=search.preset).for_clip(scene)
        if search.restart_cost is None:
            return None
        begin_s = cpu_s()
        encode, encodes, thrown_away_s = steered_to_target(scene, settings, search, crf)
        search_s = encode.score_cpu_s + thrown_away_s
        coding_s = cpu_s() - begin_s - search_s
        begin_s = cpu_s()
        scores = all_scores(target.metric, scene, decoded(packet.data for packet in encode.packets))
        pixels = scene.width * scene.height * scene.frame_count
        figures = {f"{target.metric}.{pool}": pooled(scores, pool) for pool in POOLS}
        figures[BITS] = float(np.log2(8 * sum(packet.size for packet in encode.packets) / pixels))
        kept = mean_crf(encodes[-1])
        score_cpu_s = dict.fromkeys(METRICS, 0.0) | {target.metric: cpu_s() - begin_s}
        point = CurvePoint(str(search.preset), kept, figures, coding_s, score_cpu_s)
        plain = self.whole(lesson, search.preset, round(4 * kept) / 4, target.metric)
        return SteeredPoint(point, search_s, encodes, plain)

    def of_scenes(self, names: Sequence[str]) -> Laboratory:
        return RealEncodes({name: self._scenes[name] for name in names})

    def _scene(self, lesson: Lesson) -> Clip:
        if self._held is None or self._held[0] != lesson.name:
            self._held = (lesson.name, self._scenes[lesson.name].load())
        return self._held[1]


def _as_check(point: CurvePoint, lesson: Lesson) -> CurvePoint:
    """What a check takes: as much for each frame as the scores of the scene's probes did."""
    frames = sum(count for _, count in windows(lesson.frames))
    more = len(frames_to_check(lesson.frames)) / max(len(scored([frames])), 1)
    probes = [each.score_cpu_s for each in lesson.points if each.encoder == PROBE]
    score_cpu_s = {name: more * float(np.mean([each[name] for each in probes])) for name in probes[0]}
    fast = [each.encode_cpu_s for each in lesson.points if each.encoder == "8"]
    return replace(point, encode_cpu_s=DECODING * float(np.mean(fast)), score_cpu_s=score_cpu_s)


def _at(lesson: Lesson, encoder: str, figure: str, crf: float) -> float:
    crfs, values = lesson.curve(encoder, figure)
    return float(from_scale(figure, spline_weights(tuple(crfs.tolist()), float(crf)) @ to_scale(figure, values)))


def _costs(points: list[CurvePoint], crf: float) -> tuple[float, dict[str, float]]:
    """CPU seconds of (coding, scoring by metric) between the measured CRFs."""
    ordered = sorted(points, key=lambda point: point.crf)
    crfs = [point.crf for point in ordered]
    coding = float(np.interp(crf, crfs, [point.encode_cpu_s for point in ordered]))
    return coding, {
        metric: float(np.interp(crf, crfs, [point.score_cpu_s[metric] for point in ordered]))
        for metric in ordered[0].score_cpu_s
    }
