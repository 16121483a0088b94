"""A whole video to a quality: read once, cut, a CRF searched for each part, then the parts are coded side by side.

clip ─► scan ─► cut ─► search_parts ─► code_part for each, in worker processes ─► joined
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.parts.board import side_by_side
from reelrl.encode.parts.coding import CodedPart, PartTask, code_part, finished, joined
from reelrl.encode.parts.cuts import VideoPart, cut
from reelrl.encode.parts.scan import STRETCH, scan
from reelrl.encode.parts.whole import RESTARTS
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.measured import at_crf
from reelrl.encode.target.plan import SearchedPart, search_parts
from reelrl.encode.target.scores import all_scores, pooled
from reelrl.parallel import InProcess, executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.parts.folder import PartsFolder
    from reelrl.encode.target.model import FigureModel
    from reelrl.parallel import Executor


@dataclass(frozen=True)
class TargetJob:
    """What to encode: `target` in every part, none above `max_kbps`; `workers` as in `PartsJob`."""

    clip: Clip
    settings: EncoderSettings
    target: QualityTarget
    max_kbps: float | None = None
    workers: int = 0


@dataclass(frozen=True)
class TargetEncode:
    """A video whose parts are coded, with what was decided for each; `found` parts were there from an earlier time."""

    clip: Clip
    parts: tuple[VideoPart, ...]
    coded: tuple[CodedPart, ...]
    searched: tuple[SearchedPart, ...]
    found: int

    def packets(self) -> Iterator[bytes]:
        return joined(self.coded)

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.coded)

    @property
    def kbps(self) -> float:
        return self.size_bytes * 8 / self.clip.duration_s / 1000

    @property
    def probes(self) -> int:
        return sum(len(part.decision.probes) for part in self.searched)

    @property
    def expected(self) -> float:
        """The target's figure as expected: the mean over parts by their frames."""
        frames = [part.frames for part in self.parts]
        return float(np.average([part.decision.chosen.expected for part in self.searched], weights=frames))


def encode_to_target(job: TargetJob, models: Mapping[str, FigureModel], folder: PartsFolder) -> TargetEncode:
    """Search and code the video into the folder; what is finished in it is taken over."""
    clip, settings = job.clip, job.settings.for_clip(job.clip)
    with executor(job.workers, restarts=RESTARTS) as workers:
        seen = scan(clip, _enough(workers, -(-clip.frame_count // STRETCH)))
        parts = cut(seen.novelty, clip.fps, settings.keyint)
        work = _enough(workers, len(parts))
        scenes = [clip.window(part.first, part.frames) for part in parts]
        with Progress("search", len(parts), unit="parts") as progress:
            searched = search_parts(
                scenes,
                settings,
                job.target,
                models,
                work,
                max_kbps=job.max_kbps,
                moved=lambda part: progress.update(),  # noqa: ARG005
            )
        tasks = []
        for part, found in zip(parts, searched, strict=True):
            chosen = at_crf(settings, found.decision.chosen.crf)
            tasks.append(PartTask(clip, part, chosen, folder.file(seen.key(part), chosen)))
        done = {task.part.number: coded for task in tasks if (coded := finished(task)) is not None}
        left = [task for task in tasks if task.part.number not in done]
        fresh = side_by_side(work, code_part, left, "encode", float(clip.fps))
    taken_over = len(done)
    done |= {part.number: part for part in fresh}
    return TargetEncode(clip, parts, tuple(done[part.number] for part in parts), tuple(searched), taken_over)


def verify(clip: Clip, output: Path, parts: tuple[VideoPart, ...], target: QualityTarget) -> tuple[float, list[float]]:
    """The target's figure of the result, every frame of it decoded and scored: (of the whole, of each part)."""
    coded = Clip.open(output, fps=clip.fps)
    scores: NDArray[np.float64] = all_scores(target.metric, clip, coded)
    return pooled(scores, target.pool), [pooled(scores[part.first : part.end], target.pool) for part in parts]


def _enough(workers: Executor, tasks: int) -> Executor:
    """One task is done here: a process of its own would only take a second to start."""
    return workers if tasks > 1 else InProcess()
