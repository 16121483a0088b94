"""Parts of a video brought to a quality: searched, coded, and where the model was unsure, scored and coded again.

Parts are worked on in rounds: those of a round side by side, each with what the rounds before it taught. So the choice
does not depend on how many processes there are. Each round is as long as all before it together: the first parts teach
the most, and a long file seldom waits for the last part of a round.

    parts ──► meet_part (features, belief, probes, encode, check) ──► MetPart ──► FileBelief.learn ──► the next round
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.parts.away import SentPart
from reelrl.encode.parts.coding import CodedPart, PartTask, code_part, finished
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.folder import part_file
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, CurvePoint, probe_point
from reelrl.encode.target.measured import at_crf, cpu_s
from reelrl.encode.target.model import FigureModel, FileBelief, SceneBelief
from reelrl.encode.target.probe import cost, frames_to_check, windows
from reelrl.encode.target.scene_features import pair_places, scene_features
from reelrl.encode.target.scores import frame_scores, pooled
from reelrl.encode.target.search import SceneDecision, SceneSearch, SearchRules
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import read_regular
from reelrl.storage.travelling_file import TravellingFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.content.frame import Frame
    from reelrl.parallel import Executor

FIRST_ROUND = 4  # parts


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

    search_cpu_s  of features, probes and scores, and of an encode that was made again
    found         the part was there from an earlier time
    """

    coded: CodedPart
    decision: SceneDecision
    beliefs: Mapping[str, SceneBelief]
    search_cpu_s: float
    found: bool


@dataclass(frozen=True)
class SentMetPart:
    """A part that was met, and the files of it that its folder does not have yet."""

    met: MetPart
    files: dict[str, bytes]

    def received(self) -> MetPart:
        SentPart(self.met.coded, self.files).received()
        return self.met


def meet_parts(
    tasks: Sequence[MeetTask],
    models: Mapping[str, FigureModel],
    work: Executor,
    moved: Callable[[MetPart], None] = lambda _: None,
) -> list[MetPart]:
    """All parts of one video, in their order; their tasks' beliefs are filled in here."""
    figure = tasks[0].target.figure
    if figure not in models:
        raise ConfigError(f"the model knows nothing of {figure}; it knows {', '.join(sorted(models))}")
    files = {name: FileBelief(models[name]) for name in (figure, BITS)}
    there = _files_by_part(tasks[0].folder)
    tasks = [replace(task, there=there.get(task.part.number, ())) for task in tasks]
    met: list[MetPart] = []
    while len(met) < len(tasks):
        start = len(met)
        informed = [replace(task, files=files) for task in tasks[start : start + max(FIRST_ROUND, start)]]
        for sent in work.map(meet_anywhere, informed, name=_frames):
            met.append(sent.received())
            moved(met[-1])
        for part in met[start:]:
            for name, file in files.items():
                file.learn(part.beliefs[name])
    return met


def _files_by_part(folder: Path) -> dict[int, tuple[tuple[str, TravellingFile], ...]]:
    """What an encode that was stopped has left, by the number of the part; what cannot be read is nobody's."""
    found: dict[int, tuple[tuple[str, TravellingFile], ...]] = {}
    for facts in sorted(folder.glob("[!.]*.json")):
        try:
            number = int(json.loads(read_regular(facts))["number"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        pair = [(path.name, TravellingFile(path)) for path in (facts.with_suffix(".ivf"), facts) if path.is_file()]
        found[number] = (*found.get(number, ()), *pair)
    return found


def _frames(task: MeetTask) -> str:
    return f"frames {task.part.first} to {task.part.end - 1}"


def meet_anywhere(task: MeetTask) -> SentMetPart:
    """Meet a part in its folder or, where that is not seen, in one of this machine's own."""
    if task.folder.is_dir():
        return SentMetPart(meet_part(task), {})
    with TemporaryDirectory(prefix="reelrl-") as own:
        folder = Path(own)
        for name, file in task.there:
            shutil.copy(file, folder / name)
        before = set(folder.iterdir())
        met = meet_part(replace(task, folder=folder))
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path not in before}
    home = task.folder / Path(met.coded.file).name
    return SentMetPart(replace(met, coded=replace(met.coded, file=str(home))), files)


def meet_part(task: MeetTask) -> MetPart:
    """Look at a part, probe it where that is worth it, code it, and do so again where it missed."""
    begin_s = cpu_s()
    scene = task.clip.window(task.part.first, task.part.frames)
    search = _search(task, scene)
    decision = search.decide(_prober(task, scene))
    spent_s = cpu_s() - begin_s
    coded, found = _coded(task, decision.chosen.crf)
    while search.worth_a_check(decision):
        begin_s, crf = cpu_s(), decision.chosen.crf
        decision = search.revise(decision, _check(scene, coded, task.target))
        if decision.chosen.crf != crf:
            coded, found = _coded(task, decision.chosen.crf)
        spent_s += cpu_s() - begin_s
    return MetPart(coded, decision, search.beliefs, spent_s, found)


def _search(task: MeetTask, scene: Clip) -> SceneSearch:
    features = scene_features(_pairs(scene), float(scene.fps))
    return SceneSearch(
        {name: file.scene(features) for name, file in task.files.items()},
        task.target,
        task.settings.preset,
        task.rules,
        probe_cost=cost(scene.frame_count, task.settings.preset),
        pixel_rate=scene.width * scene.height * float(scene.fps),
        max_kbps=task.max_kbps,
    )


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
