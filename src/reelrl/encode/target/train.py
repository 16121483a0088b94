"""Training of the model of quality targets: scenes are encoded at several CRFs, then the curves are fitted.

Nearly all of the time goes into encodes. Each scene's figures are saved as soon as they are measured, and each encode
is cached, so that a training that was stopped goes on with the next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from reelrl.encode.target.fit import CurveFitSettings, fitted
from reelrl.encode.target.lessons import CurvePoint, Lesson, LessonPlan, lesson_of
from reelrl.encode.target.model import figure_names
from reelrl.encode.target.model_file import FILE, save_models
from reelrl.encode.target.scenes import SceneChoice, scenes_of, videos_in
from reelrl.errors import ConfigError, RunError
from reelrl.parallel import executor
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.content.clip import Clip
    from reelrl.encode.target.model import FigureModel
    from reelrl.runs.folder import Run, RunFolder
    from reelrl.runs.saving import Saving

LESSONS = "lessons.json"
_LOW_CRFS, _HIGH_CRFS = (18, 24, 30, 36), (42, 48, 54, 60)


@dataclass(frozen=True)
class TargetTraining:
    """Settings of a training.

    videos    folders, files and recipes; none: generated scenes
    scenes    how scenes are taken from them
    thorough  every scene at five CRFs by preset 8 and at three by preset 4, instead of two, and one of every second
              scene: curves then can be read off without an encode
    fit       how strongly the fit is held back
    """

    videos: tuple[str, ...] = ()
    scenes: SceneChoice = field(default_factory=SceneChoice)
    thorough: bool = False
    fit: CurveFitSettings = field(default_factory=CurveFitSettings)

    def plan_for(self, number: int) -> LessonPlan:
        """What is encoded of a scene: other CRFs than of its neighbours, so that together they fill the range."""
        if self.thorough:
            return LessonPlan()
        pair = (_LOW_CRFS[number % 4], _HIGH_CRFS[(3 * number + number // 4) % 4])
        slow = () if (number + number // 4) % 2 else (pair[number // 2 % 2],)
        return LessonPlan(probes=pair, presets={"8": pair, "4": slow})


class TargetTrainer:
    """Measures the scenes that are not measured yet, then fits."""

    def __init__(self, settings: TargetTraining, run: Run, jobs: int = 1) -> None:
        self.settings, self.run, self.jobs = settings, run, jobs
        self.scenes = [scene for video in videos_in(settings.videos) for scene in scenes_of(video, settings.scenes)]
        if len({scene.source for scene in self.scenes}) < 2:
            raise ConfigError(
                f"{len(self.scenes)} scenes of one source: a model of one source knows no other; give more videos"
            )
        self.lessons: dict[str, Lesson] = {lesson.name: lesson for lesson in read_lessons(run)}

    @property
    def done(self) -> int:
        return sum(scene.name in self.lessons for scene in self.scenes)

    def train(self, moved: Callable[[Lesson], None], saving: Saving) -> dict[str, FigureModel]:
        tasks = [
            (scene, self.settings.plan_for(number))
            for number, scene in enumerate(self.scenes)
            if scene.name not in self.lessons
        ]
        with saving, executor(self.jobs) as work:
            for lesson in work.map(_measure, tasks, name=lambda task: task[0].name):
                self.lessons[lesson.name] = lesson
                moved(lesson)
                saving.reached(f"{self.done} of {len(self.scenes)} scenes", self._save, due=True)
        models = fit_all(list(self.lessons.values()), self.settings.fit)
        save_models(self.run.new_artifact(FILE), models, self.facts())
        return models

    def facts(self) -> dict[str, Any]:
        lessons = self.lessons.values()
        return {
            "scenes": len(lessons),
            "sources": sorted({lesson.source for lesson in lessons}),
            "sizes": sorted({f"{lesson.width}x{lesson.height}" for lesson in lessons}),
            "encodes": sum(len(lesson.points) for lesson in lessons),
        }

    def _save(self) -> None:
        body = json.dumps([asdict(lesson) for lesson in self.lessons.values()])
        write_atomic(self.run.new_artifact(LESSONS), body.encode())


def _measure(task: tuple[Clip, LessonPlan]) -> Lesson:
    return lesson_of(*task)


def fit_all(lessons: list[Lesson], settings: CurveFitSettings) -> dict[str, FigureModel]:
    """A model for each figure that was measured."""
    known = {name for lesson in lessons for point in lesson.points for name in point.figures}
    return {figure: fitted(figure, lessons, settings) for figure in figure_names() if figure in known}


def read_lessons(run: RunFolder) -> list[Lesson]:
    """What a run has measured so far."""
    path = run.artifact(LESSONS)
    try:
        written = parse_json(read_regular(path))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise RunError(f"{path} can't be read ({error}); delete it, the encodes are cached") from error
    try:
        return [Lesson(**each | {"points": [CurvePoint(**point) for point in each["points"]]}) for each in written]
    except (TypeError, KeyError) as error:
        raise RunError(f"{path} holds no lessons ({error}); delete it, the encodes are cached") from error
