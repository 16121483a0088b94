"""One part of a video brought to a quality: looked at, probed where that is worth it, and coded.

A part that is long enough is steered on its way (`reelrl.encode.target.steering`); a short one is coded, checked by a
few of its frames, and coded again where it missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.parts.coding import CodedPart, PartStream, PartTask, code_part, finished, stored
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.folder import part_file
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import CurvePoint, probe_point
from reelrl.encode.target.levels import Stretch
from reelrl.encode.target.measured import at_crf, cpu_s
from reelrl.encode.target.model import FileBelief, SceneBelief
from reelrl.encode.target.probe import cost, frames_to_check, windows
from reelrl.encode.target.scene_features import pair_places, scene_features
from reelrl.encode.target.scores import frame_scores, pooled
from reelrl.encode.target.search import SceneDecision, SceneSearch, SearchRules
from reelrl.encode.target.steering import frames_before_check, steerable, steered_to_target
from reelrl.storage.travelling_file import TravellingFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.content.frame import Frame


@dataclass(frozen=True)
class MeetTask:
    """One part to bring to the target; a task for `reelrl.parallel`.

    content  what its pictures are named by in `folder`, where coded parts go
    files    what earlier parts of the same file taught, by figure
    there    files of `folder` from an earlier time that may be of this part, by name, for machines that do not see it
    """

    clip: Clip
    part: VideoPart
    content: str
    folder: Path
    settings: EncoderSettings
    target: QualityTarget
    files: Mapping[str, FileBelief]
    rules: SearchRules
    max_kbps: float | None
    there: tuple[tuple[str, TravellingFile], ...] = ()


@dataclass(frozen=True)
class MetPart:
    """A part that is coded, what was decided for it, what is now believed of it, and CPU seconds.

    search_cpu_s  of features, probes and scores, and of encodes that were given up or made again
    found         the part was there from an earlier time
    """

    coded: CodedPart
    decision: SceneDecision
    beliefs: Mapping[str, SceneBelief]
    search_cpu_s: float
    found: bool


def meet_part(task: MeetTask) -> MetPart:
    """Look at a part, probe it where that is worth it, and code it to its target."""
    begin_s = cpu_s()
    scene = task.clip.window(task.part.first, task.part.frames)
    search = _search(task, scene)
    decision = search.decide(_prober(task, scene))
    spent_s = cpu_s() - begin_s
    if search.restart_cost is not None and decision.capped_by != "kbps":
        return _steered(task, scene, search, decision, spent_s)
    return _checked(task, scene, search, decision, spent_s)


def _steered(task: MeetTask, scene: Clip, search: SceneSearch, decision: SceneDecision, spent_s: float) -> MetPart:
    """The part, steered on its way, or as it was steered before."""
    start = at_crf(task.settings, round(decision.chosen.crf))
    file = part_file(task.folder, task.content, start, *search.facts)
    wanted = PartTask(task.clip, task.part, start, file)
    coded = finished(wanted)
    found = coded is not None
    if coded is None:
        encode, encodes, thrown_away_s = steered_to_target(scene, task.settings, search, start.qp)
        spent_s += thrown_away_s + encode.score_cpu_s
        scored = [[astuple(stretch) for stretch in stretches] for stretches in encodes]
        coded = stored(wanted, PartStream(encode.packets, [], start.qp), scored)
    else:
        encodes = [[Stretch(round(n), crf, figure) for n, crf, figure in stretches] for stretches in coded.scored]
        for stretches in encodes:
            search.learn(stretches, scene.frame_count)
    return MetPart(coded, search.after_encodes(decision, encodes), search.beliefs, spent_s, found)


def _checked(task: MeetTask, scene: Clip, search: SceneSearch, decision: SceneDecision, spent_s: float) -> MetPart:
    """The part at one CRF, and at another where a few of its frames say that it missed."""
    coded, found = _coded(task, decision.chosen.crf)
    while search.worth_a_check(decision):
        begin_s, crf = cpu_s(), decision.chosen.crf
        decision = search.revise(decision, _check(scene, coded, task.target))
        if decision.chosen.crf != crf:
            coded, found = _coded(task, decision.chosen.crf)
        spent_s += cpu_s() - begin_s
    return MetPart(coded, decision, search.beliefs, spent_s, found)


def _search(task: MeetTask, scene: Clip) -> SceneSearch:
    features, settings = scene_features(_pairs(scene), float(scene.fps)), task.settings
    search = SceneSearch(
        {name: file.scene(features) for name, file in task.files.items()},
        task.target,
        settings.preset,
        task.rules,
        probe_cost=cost(scene.frame_count, settings.preset),
        pixel_rate=scene.width * scene.height * float(scene.fps),
        max_kbps=task.max_kbps,
    )
    able = capabilities(settings.backend).crf_change and steerable(scene.frame_count, settings)
    if not (able and search.can_be_checked):
        return search
    return replace(search, restart_cost=frames_before_check(settings) / scene.frame_count)


def _prober(task: MeetTask, scene: Clip) -> Callable[[float], CurvePoint]:
    stretches: list[Clip] = []

    def ask(crf: float) -> CurvePoint:
        if not stretches:  # read once, and only where there is something to probe
            stretches.extend(scene.window(first, count).load() for first, count in windows(scene.frame_count))
        return probe_point(stretches, replace(task.settings, keyint=-1), crf, (task.target.metric,))

    return ask


def _coded(task: MeetTask, crf: float) -> tuple[CodedPart, bool]:
    """(the part at a CRF, whether it was there already)."""
    chosen = at_crf(task.settings, crf)
    wanted = PartTask(task.clip, task.part, chosen, part_file(task.folder, task.content, chosen))
    before = finished(wanted)
    return (code_part(wanted), False) if before is None else (before, True)


def _check(scene: Clip, coded: CodedPart, target: QualityTarget) -> float:
    """The target's figure of a coded part, by a few of its frames."""
    numbers = frames_to_check(scene.frame_count)
    wanted = {n + step for n in numbers for step in (-1, 0, 1)} or set(range(scene.frame_count))
    # A part may be long: only the frames that are scored, and their neighbours, are held.
    held = sorted(wanted)
    source = [frame for n, frame in enumerate(scene) if n in wanted]
    result = [frame for n, frame in enumerate(Clip.open(coded.file, fps=scene.fps)) if n in wanted]
    return pooled(frame_scores(target.metric, [held.index(n) for n in numbers], source, result), target.pool)


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
