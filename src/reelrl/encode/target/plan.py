"""The CRF of every part of a video, before any is coded.

Parts are searched in rounds: those of a round side by side, each with what the rounds before it taught. So the choice
does not depend on how many processes there are.

    parts ──► search_part (features, belief, probes) ──► SearchedPart ──► FileBelief.learn ──► the next round
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, probe_point
from reelrl.encode.target.measured import cpu_s
from reelrl.encode.target.model import FigureModel, FileBelief, SceneBelief
from reelrl.encode.target.probe import windows
from reelrl.encode.target.scene_features import pair_places, scene_features
from reelrl.encode.target.search import DEFAULT_RULES, SceneDecision, SearchRules, search
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.content.frame import Frame
    from reelrl.encode.target.lessons import CurvePoint
    from reelrl.parallel import Executor

ROUND = 8  # parts


@dataclass(frozen=True)
class SearchTask:
    """One part to find the CRF of; a task for `reelrl.parallel`."""

    scene: Clip
    settings: EncoderSettings
    target: QualityTarget
    files: Mapping[str, FileBelief]
    rules: SearchRules
    max_kbps: float | None


@dataclass(frozen=True)
class SearchedPart:
    """What was decided for a part, what is now believed of it, and the CPU seconds it took."""

    decision: SceneDecision
    beliefs: Mapping[str, SceneBelief]
    cpu_s: float


def search_parts(
    scenes: Sequence[Clip],
    settings: EncoderSettings,
    target: QualityTarget,
    models: Mapping[str, FigureModel],
    work: Executor,
    *,
    rules: SearchRules = DEFAULT_RULES,
    max_kbps: float | None = None,
    moved: Callable[[SearchedPart], None] = lambda _: None,
) -> list[SearchedPart]:
    """Decisions for all parts of one video, in their order."""
    if target.figure not in models:
        raise ConfigError(f"the model knows nothing of {target.figure}; it knows {', '.join(sorted(models))}")
    files = {name: FileBelief(models[name]) for name in (target.figure, BITS)}
    searched: list[SearchedPart] = []
    for start in range(0, len(scenes), ROUND):
        tasks = [
            SearchTask(scene, settings.for_clip(scene), target, files, rules, max_kbps)
            for scene in scenes[start : start + ROUND]
        ]
        for part in work.map(search_part, tasks, name=lambda task: task.scene.name):
            searched.append(part)
            moved(part)
        for part in searched[start:]:
            for name, file in files.items():
                file.learn(part.beliefs[name])
    return searched


def search_part(task: SearchTask) -> SearchedPart:
    """Look at a part, probe it where that is worth it, and decide."""
    begin_s = cpu_s()
    scene, settings = task.scene, task.settings
    features = scene_features(_pairs(scene), float(scene.fps))
    beliefs = {name: file.scene(features) for name, file in task.files.items()}
    stretches: list[Clip] = []

    def ask(crf: float) -> CurvePoint:
        if not stretches:  # read once, and only where there is something to probe
            stretches.extend(scene.window(first, count).load() for first, count in windows(scene.frame_count))
        return probe_point(stretches, replace(settings, keyint=-1), crf, (task.target.metric,))

    decision = search(
        beliefs,
        task.target,
        settings.preset,
        ask,
        task.rules,
        pixel_rate=scene.width * scene.height * float(scene.fps),
        max_kbps=task.max_kbps,
    )
    return SearchedPart(decision, beliefs, cpu_s() - begin_s)


def _pairs(scene: Clip) -> list[tuple[Frame, Frame]]:
    """Pairs of neighbours, by jumping to them: a part may be long."""
    if scene.frame_count == 1:
        only = next(iter(scene))
        return [(only, only)]
    pairs = []
    for place in pair_places(scene.frame_count):
        frames = scene.frames(place)
        pairs.append((next(frames), next(frames)))
    return pairs
