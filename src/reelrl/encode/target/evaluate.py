"""Who meets a quality with how many probes: the model on sources it has not seen, beside two reference searchers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.target import references
from reelrl.encode.target.fit import CurveFitSettings, fitted
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.laboratory import MeasuredCurves
from reelrl.encode.target.lessons import BITS
from reelrl.encode.target.model import FileBelief
from reelrl.encode.target.search import SearchRules, search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reelrl.encode.target.laboratory import Laboratory
    from reelrl.encode.target.lessons import CurvePoint, Lesson

MODEL = "model"
REFERENCES = {"interpolated": references.interpolated, "four-probes": references.four_probes}
TARGETS = (70.0, 97.0)
_GOLDEN = 0.618034


@dataclass(frozen=True)
class TargetPlan:
    """What is asked of each scene.

    presets   the encode is made with
    metric    of the target, pooled by `pool`
    targets   of each scene and preset; spread over what the scene reaches between `TARGETS`
    least_height   scenes of smaller pictures teach and are not judged
    encode_references   make every encode that the reference searchers ask for, whole scenes each
    """

    presets: tuple[int, ...] = (8, 4)
    metric: str = "vmaf"
    pool: str = "mean"
    targets: int = 1
    least_height: int = 352
    encode_references: bool = False
    rules: SearchRules = field(default_factory=SearchRules)
    fit: CurveFitSettings = field(default_factory=CurveFitSettings)


@dataclass(frozen=True)
class SearchOutcome:
    """One scene by one searcher.

    got        the scene's figure at the chosen CRF
    doubt      standard deviation that the model stated; 0 for others
    search_cpu_s, encode_cpu_s   features, probes and their scores; the encode at the chosen CRF
    """

    searcher: str
    scene: str
    source: str
    height: int
    preset: int
    target: float
    crf: float
    got: float
    doubt: float
    probes: int
    search_cpu_s: float
    encode_cpu_s: float

    @property
    def miss(self) -> float:
        return self.got - self.target


def judge(lessons: Sequence[Lesson], plan: TargetPlan, laboratory: Laboratory) -> Iterator[SearchOutcome]:
    """All searchers on all scenes; the model is fitted anew for each source, without it.

    The model gets its answers from `laboratory`, and so do the references where the plan says so; else they read theirs
    off the curves that are known of the scene by then, which flatters them: every answer is that of the whole scene.
    """
    for source in sorted({lesson.source for lesson in lessons}):
        others = [lesson for lesson in lessons if lesson.source != source]
        models = {name: fitted(name, others, plan.fit) for name in (f"{plan.metric}.{plan.pool}", BITS)}
        for preset in plan.presets:
            files = {name: FileBelief(model) for name, model in models.items()}
            for lesson in lessons:
                if lesson.source != source or lesson.height < plan.least_height:
                    continue
                for target in targets_of(lesson, preset, plan, list(lessons).index(lesson)):
                    outcome, final = _by_model(lesson, preset, target, plan, files, laboratory)
                    yield outcome
                    answers, known = laboratory, lesson
                    if not plan.encode_references:
                        answers, known = MeasuredCurves(), _with_point(lesson, final)
                    for name, searcher in REFERENCES.items():
                        yield _by_reference(name, searcher, known, preset, target, answers)


def targets_of(lesson: Lesson, preset: int, plan: TargetPlan, number: int) -> list[QualityTarget]:
    """Targets that the scene reaches between CRF 16 and 61, spread so that all scenes fill the range evenly."""
    _, values = lesson.curve("8", f"{plan.metric}.{plan.pool}")
    low, high = max(TARGETS[0], float(values.min())), min(TARGETS[1], float(values.max()))
    if high - low < 1:
        return []
    # Low-discrepancy: scene after scene falls between those before it.
    shares = [((number + 0.5 * (preset == 4)) * _GOLDEN + k / plan.targets) % 1 for k in range(plan.targets)]
    return [QualityTarget(plan.metric, round(low + share * (high - low), 1), plan.pool) for share in shares]


def _by_model(
    lesson: Lesson,
    preset: int,
    target: QualityTarget,
    plan: TargetPlan,
    files: dict[str, FileBelief],
    laboratory: Laboratory,
) -> tuple[SearchOutcome, CurvePoint]:
    beliefs = {name: file.scene(np.array(lesson.features)) for name, file in files.items()}
    asked: list[CurvePoint] = []

    def ask(crf: float) -> CurvePoint:
        asked.append(laboratory.probe(lesson, crf, plan.metric))
        return asked[-1]

    decision = search(beliefs, target, preset, ask, plan.rules)
    final = laboratory.whole(lesson, preset, decision.chosen.crf, plan.metric)
    for name, file in files.items():
        file.learn(beliefs[name])
    spent_s = lesson.feature_cpu_s + sum(point.encode_cpu_s + point.score_cpu_s[plan.metric] for point in asked)
    return _outcome(MODEL, lesson, preset, target, final, len(asked), spent_s, decision.chosen.doubt), final


def _with_point(lesson: Lesson, point: CurvePoint) -> Lesson:
    """The lesson with one encode more; one at the same CRF is known better by it."""
    others = [each for each in lesson.points if (each.encoder, each.crf) != (point.encoder, point.crf)]
    return replace(lesson, points=[*others, point])


def _by_reference(
    name: str,
    searcher: Callable[[float, Callable[[float], float]], tuple[float, int]],
    lesson: Lesson,
    preset: int,
    target: QualityTarget,
    laboratory: Laboratory,
) -> SearchOutcome:
    asked: list[CurvePoint] = []

    def ask(crf: float) -> float:
        asked.append(laboratory.whole(lesson, preset, crf, target.metric))
        return asked[-1].figures[target.figure]

    crf, probes = searcher(target.value, ask)
    final = laboratory.whole(lesson, preset, crf, target.metric)
    spent_s = sum(point.encode_cpu_s + point.score_cpu_s[target.metric] for point in asked)
    return _outcome(name, lesson, preset, target, final, probes, spent_s)


def _outcome(
    searcher: str,
    lesson: Lesson,
    preset: int,
    target: QualityTarget,
    final: CurvePoint,
    probes: int,
    spent_s: float,
    doubt: float = 0.0,
) -> SearchOutcome:
    return SearchOutcome(
        searcher=searcher,
        scene=lesson.name,
        source=lesson.source,
        height=lesson.height,
        preset=preset,
        target=target.value,
        crf=final.crf,
        got=final.figures[target.figure],
        doubt=doubt,
        probes=probes,
        search_cpu_s=spent_s,
        encode_cpu_s=final.encode_cpu_s,
    )


def summary(outcomes: Sequence[SearchOutcome], near: float = 1.0) -> list[dict[str, Any]]:
    """By searcher and preset: how many scenes are met, how far off, with how many probes, at which cost."""
    rows = []
    for searcher, preset in sorted({(each.searcher, each.preset) for each in outcomes}, reverse=True):
        chosen = [each for each in outcomes if (each.searcher, each.preset) == (searcher, preset)]
        misses = np.array([each.miss for each in chosen])
        rows.append(
            {
                "searcher": searcher,
                "preset": preset,
                "scenes": len(chosen),
                "within": float((np.abs(misses) <= near).mean()),
                "mean_miss": float(np.abs(misses).mean()),
                "p95_miss": float(np.percentile(np.abs(misses), 95)),
                "probes": float(np.mean([each.probes for each in chosen])),
                # Of all CPU time, so that a second spent on a large picture counts as one.
                "cpu_ratio": sum(each.search_cpu_s for each in chosen) / sum(each.encode_cpu_s for each in chosen),
            }
        )
    return rows
