"""Who meets a quality with how many probes: the model on sources it has not seen, beside two reference searchers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.target import references
from reelrl.encode.target.fit import CurveFitSettings, fitted
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.laboratory import Laboratory, MeasuredCurves
from reelrl.encode.target.lessons import BITS, SETTINGS, Lesson
from reelrl.encode.target.levels import Stretch
from reelrl.encode.target.model import FigureModel, FileBelief
from reelrl.encode.target.probe import cost
from reelrl.encode.target.search import SceneSearch, SearchRules
from reelrl.encode.target.steering import frames_before_check, steerable
from reelrl.parallel import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reelrl.encode.target.laboratory import SteeredPoint
    from reelrl.encode.target.lessons import CurvePoint
    from reelrl.encode.target.model import SceneBelief
    from reelrl.parallel import Executor

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
    least_height, most_height   scenes of smaller and larger pictures teach and are not judged
    references   the reference searchers to compare with
    encode_references   make every encode that they ask for, whole scenes each
    """

    presets: tuple[int, ...] = (8, 4)
    metric: str = "vmaf"
    pool: str = "mean"
    targets: int = 1
    least_height: int = 352
    most_height: int = 4320
    references: tuple[str, ...] = tuple(REFERENCES)
    encode_references: bool = False
    rules: SearchRules = field(default_factory=SearchRules)
    fit: CurveFitSettings = field(default_factory=CurveFitSettings)

    def judges(self, lesson: Lesson) -> bool:
        return self.least_height <= lesson.height <= self.most_height


@dataclass(frozen=True)
class SearchOutcome:
    """One scene by one searcher.

    place      of the scene among those of its source, from 0
    got        the scene's figure at the chosen CRF
    doubt      standard deviation that the model stated; 0 for others
    probes     with an encode that was made again, which counts as one
    recoded    how often the encode was given up, or made again
    frames     of the scene
    more_bits  of a steered encode over one that is not steered and has the same figure, as a share; 0 for others
    stretches  what was scored of each steered encode
    search_cpu_s, encode_cpu_s   features, probes, checks, scores, an encode that is thrown away; the encode that stays
    """

    searcher: str
    scene: str
    source: str
    place: int
    height: int
    preset: int
    target: float
    crf: float
    got: float
    doubt: float
    probes: int
    recoded: int
    search_cpu_s: float
    encode_cpu_s: float
    frames: int = 0
    more_bits: float = 0.0
    stretches: tuple[tuple[Stretch, ...], ...] = ()

    @property
    def miss(self) -> float:
        return self.got - self.target


@dataclass(frozen=True)
class SourceTask:
    """The scenes of one source by one preset: a task for `reelrl.parallel`.

    numbered  its lessons with their places among all
    models    fitted to all other sources
    """

    source: str
    preset: int
    numbered: tuple[tuple[int, Lesson], ...]
    models: Mapping[str, FigureModel]
    plan: TargetPlan
    laboratory: Laboratory


def models_without(
    lessons: Sequence[Lesson], plan: TargetPlan, work: Executor | None = None, sources: Sequence[str] | None = None
) -> dict[str, dict[str, FigureModel]]:
    """By source, of all that are judged unless told: the models that are fitted to all others."""
    sources = sources or sorted({lesson.source for lesson in lessons if plan.judges(lesson)})
    tasks = [([each for each in lessons if each.source != source], plan) for source in sources]
    return dict(zip(sources, (work or InProcess()).map(_fit, tasks, name=lambda _: "a fit"), strict=True))


def _fit(task: tuple[list[Lesson], TargetPlan]) -> dict[str, FigureModel]:
    lessons, plan = task
    return {name: fitted(name, lessons, plan.fit) for name in (f"{plan.metric}.{plan.pool}", BITS)}


def judge(
    lessons: Sequence[Lesson],
    plan: TargetPlan,
    laboratory: Laboratory,
    models: Mapping[str, Mapping[str, FigureModel]] | None = None,
    work: Executor | None = None,
) -> Iterator[SearchOutcome]:
    """All searchers on all scenes; `models` are those of `models_without`, fitted anew for each source.

    The model gets its answers from `laboratory`, and so do the references where the plan says so; else they read theirs
    off the curves that are known of the scene by then, which flatters them: every answer is that of the whole scene.
    """
    work = work or InProcess()
    numbered = list(enumerate(lessons))
    tasks = []
    for source, known in (models or models_without(lessons, plan, work)).items():
        judged = tuple((n, each) for n, each in numbered if each.source == source and plan.judges(each))
        answers = laboratory.of_scenes([each.name for _, each in judged])
        tasks += [SourceTask(source, preset, judged, known, plan, answers) for preset in plan.presets]
    for outcomes in work.map(judge_source, tasks, name=lambda task: f"{task.source}, preset {task.preset}"):
        yield from outcomes


def judge_source(task: SourceTask) -> list[SearchOutcome]:
    """Scene after scene, as in a file: each teaches the model of those that follow."""
    plan, preset, outcomes = task.plan, task.preset, []
    files = {name: FileBelief(model) for name, model in task.models.items()}
    for place, (number, lesson) in enumerate(task.numbered):
        for target in targets_of(lesson, preset, plan, number):
            outcome, final = _by_model(lesson, place, preset, target, plan, files, task.laboratory)
            outcomes.append(outcome)
            answers, measured = task.laboratory, lesson
            if not plan.encode_references:
                answers, measured = MeasuredCurves(), with_point(lesson, final)
            outcomes += [
                _by_reference(name, REFERENCES[name], measured, preset, target, answers) for name in plan.references
            ]
    return outcomes


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
    place: int,
    preset: int,
    target: QualityTarget,
    plan: TargetPlan,
    files: dict[str, FileBelief],
    laboratory: Laboratory,
) -> tuple[SearchOutcome, CurvePoint]:
    beliefs = {name: file.scene(np.array(lesson.features)) for name, file in files.items()}
    search = _searcher(lesson, beliefs, target, preset, plan.rules)
    asked: list[CurvePoint] = []

    def ask(crf: float) -> CurvePoint:
        asked.append(laboratory.probe(lesson, crf, plan.metric))
        return asked[-1]

    decision = search.decide(ask)
    steered = laboratory.steered(lesson, search, round(decision.chosen.crf))
    thrown_away_s, recoded, more_bits = 0.0, 0, 0.0
    stretches: tuple[tuple[Stretch, ...], ...] = ()
    if steered is not None:
        final = replace(steered.point, encode_cpu_s=steered.plain.encode_cpu_s)
        thrown_away_s = steered.search_cpu_s
        recoded, more_bits = len(steered.encodes) - 1, _more_bits(lesson, steered, target)
        stretches = tuple(tuple(each) for each in steered.encodes)
        decision = search.after_encodes(decision, steered.encodes)
    else:
        final = laboratory.whole(lesson, preset, decision.chosen.crf, plan.metric)
        while search.worth_a_check(decision):
            asked.append(laboratory.check(lesson, preset, final.crf, plan.metric))
            decision = search.revise(decision, asked[-1].figures[target.figure])
            if decision.chosen.crf != final.crf:
                thrown_away_s, recoded = thrown_away_s + final.encode_cpu_s, recoded + 1
                final = laboratory.whole(lesson, preset, decision.chosen.crf, plan.metric)
    for name, file in files.items():
        file.learn(beliefs[name])
    spent_s = lesson.feature_cpu_s + sum(point.encode_cpu_s + point.score_cpu_s[plan.metric] for point in asked)
    outcome = _outcome(MODEL, lesson, preset, target, final, len(decision.probes) + recoded, spent_s + thrown_away_s)
    outcome = replace(outcome, place=place, recoded=recoded, more_bits=more_bits, stretches=stretches)
    return replace(outcome, doubt=decision.chosen.doubt), final


def _searcher(
    lesson: Lesson, beliefs: Mapping[str, SceneBelief], target: QualityTarget, preset: int, rules: SearchRules
) -> SceneSearch:
    search = SceneSearch(beliefs, target, preset, rules, probe_cost=cost(lesson.frames, preset))
    if not (search.can_be_checked and steerable(lesson.frames, SETTINGS)):
        return search
    return replace(search, restart_cost=frames_before_check(SETTINGS) / lesson.frames)


def _more_bits(lesson: Lesson, steered: SteeredPoint, target: QualityTarget) -> float:
    """By how much the steered encode takes more than another with its figure, which is near: on a line, as steep as
    the scene's curve by preset 8.
    """
    (_, bits), (_, figures) = lesson.curve("8", BITS), lesson.curve("8", target.figure)
    slope = (bits[0] - bits[-1]) / (figures[0] - figures[-1])
    nearer = steered.point.figures[target.figure] - steered.plain.figures[target.figure]
    octaves = steered.point.figures[BITS] - steered.plain.figures[BITS] - slope * nearer
    return float(2**octaves - 1)


def with_point(lesson: Lesson, point: CurvePoint) -> Lesson:
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
) -> SearchOutcome:
    return SearchOutcome(
        searcher=searcher,
        scene=lesson.name,
        source=lesson.source,
        place=0,
        height=lesson.height,
        preset=preset,
        target=target.value,
        crf=final.crf,
        got=final.figures[target.figure],
        doubt=0.0,
        probes=probes,
        recoded=0,
        search_cpu_s=spent_s,
        encode_cpu_s=final.encode_cpu_s,
        frames=lesson.frames,
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
                "recoded": float(np.mean([each.recoded for each in chosen])),
                "more_bits": float(np.mean([each.more_bits for each in chosen])),
                # Of all CPU time, so that a second spent on a large picture counts as one.
                "cpu_ratio": sum(each.search_cpu_s for each in chosen) / sum(each.encode_cpu_s for each in chosen),
            }
        )
    return rows
