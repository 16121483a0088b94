"""A whole video to a quality: read once, cut, its parts searched and coded side by side, and joined.

clip ─► scan ─► cut ─► meet_parts: rounds of meet_part in worker processes ─► joined
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.parts.board import enough
from reelrl.encode.parts.coding import joined
from reelrl.encode.parts.cuts import VideoPart, cut
from reelrl.encode.parts.scan import scan
from reelrl.encode.parts.whole import RESTARTS
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.meet import MeetTask, MetPart
from reelrl.encode.target.plan import meet_parts
from reelrl.encode.target.scores import all_scores, pooled
from reelrl.encode.target.search import DEFAULT_RULES, SearchRules
from reelrl.parallel import executor
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.parts.folder import PartsFolder
    from reelrl.encode.target.model import FigureModel


@dataclass(frozen=True)
class TargetJob:
    """What to encode: `target` in every part, none above `max_kbps`; `workers` as in `PartsJob`."""

    clip: Clip
    settings: EncoderSettings
    target: QualityTarget
    max_kbps: float | None = None
    workers: int = 0
    rules: SearchRules = DEFAULT_RULES


@dataclass(frozen=True)
class TargetEncode:
    """A video whose parts are coded, with what was decided for each."""

    clip: Clip
    parts: tuple[VideoPart, ...]
    met: tuple[MetPart, ...]

    @property
    def found(self) -> int:
        """Parts that were there from an earlier time."""
        return sum(part.found for part in self.met)

    def packets(self) -> Iterator[bytes]:
        return joined([part.coded for part in self.met])

    @property
    def size_bytes(self) -> int:
        return sum(part.coded.size_bytes for part in self.met)

    @property
    def kbps(self) -> float:
        return self.size_bytes * 8 / self.clip.duration_s / 1000

    @property
    def probes(self) -> int:
        return sum(len(part.decision.probes) for part in self.met)

    @property
    def expected(self) -> float:
        """The target's figure as expected: the mean over parts by their frames."""
        frames = [part.frames for part in self.parts]
        return float(np.average([part.decision.chosen.expected for part in self.met], weights=frames))


def encode_to_target(job: TargetJob, models: Mapping[str, FigureModel], folder: PartsFolder) -> TargetEncode:
    """Code the video into the folder, every part at the target; what is finished in it is taken over."""
    clip, settings = job.clip, job.settings.for_clip(job.clip)
    with executor(job.workers, restarts=RESTARTS) as workers:
        seen = scan(clip, workers)
        parts = cut(seen.novelty, clip.fps, settings.keyint)
        tasks = [
            MeetTask(clip, part, seen.key(part), folder.path, settings, job.target, {}, job.rules, job.max_kbps)
            for part in parts
        ]
        with Progress("encode", len(parts), unit="parts") as progress:
            met = meet_parts(tasks, models, enough(workers, len(parts)), lambda _: progress.update())
    return TargetEncode(clip, parts, tuple(met))


def verify(clip: Clip, output: Path, parts: tuple[VideoPart, ...], target: QualityTarget) -> tuple[float, list[float]]:
    """The target's figure of the result, every frame of it decoded and scored: (of the whole, of each part)."""
    coded = Clip.open(output, fps=clip.fps)
    scores: NDArray[np.float64] = all_scores(target.metric, clip, coded)
    return pooled(scores, target.pool), [pooled(scores[part.first : part.end], target.pool) for part in parts]
