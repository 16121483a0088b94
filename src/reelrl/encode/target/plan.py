"""The parts of a video brought to a quality, in rounds.

Parts are worked on in rounds: those of a round side by side, each with what the rounds before it taught. So the choice
does not depend on how many processes there are. Each round is as long as all before it together: the first parts teach
the most, and a long file seldom waits for the last part of a round.

    parts ──► meet_part (features, belief, probes, encode, scores) ──► MetPart ──► FileBelief.learn ──► the next round
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reelrl.encode.parts.away import SentPart
from reelrl.encode.target.lessons import BITS
from reelrl.encode.target.meet import MeetTask, MetPart, meet_part
from reelrl.encode.target.model import FileBelief
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import read_regular
from reelrl.storage.travelling_file import TravellingFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reelrl.encode.target.model import FigureModel
    from reelrl.parallel import Executor

FIRST_ROUND = 4  # parts


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
