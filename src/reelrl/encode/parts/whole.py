"""A whole video by parts: read once, cut, probed, given budgets, coded side by side.

clip ─► scan ─► cut ─► probe every part ─► part_budgets ─► code_part for each, in worker processes ─► joined

Nothing here depends on how many work at once, nor on which part is done first: the same command writes the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.rules import RateModel
from reelrl.encode.minigop.protocols import MiniGopEpisode
from reelrl.encode.minigop.source.in_process import least_lag
from reelrl.encode.parts.board import side_by_side
from reelrl.encode.parts.budgets import part_budgets
from reelrl.encode.parts.coding import Budget, CodedPart, PartTask, code_part, finished, joined
from reelrl.encode.parts.cuts import cut
from reelrl.encode.parts.probing import Prober
from reelrl.encode.parts.scan import STRETCH, scan
from reelrl.errors import ConfigError
from reelrl.parallel import InProcess, executor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.encode.parts.folder import PartsFolder
    from reelrl.encode.parts.probing import Probes
    from reelrl.parallel import Executor

RESTARTS = 2
"""How often a part is begun again whose worker process was killed."""


@dataclass(frozen=True)
class PartsJob:
    """What to encode.

    kbps     for the whole; None takes what the encoder alone takes at `settings.qp`
    policy   name of a controller that plans by a probe: `rate-model` or `auto-boost`
    workers  processes that code at once; 0 means one per core
    """

    clip: Clip
    settings: EncoderSettings
    kbps: float | None
    policy: str = "rate-model"
    seed: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        if not plans_by_probe(self.policy):
            raise ConfigError(f"{self.policy} does not plan by a probe; use rate-model, or code the clip in one piece")


def plans_by_probe(policy: str) -> bool:
    """Whether a policy decides by the probe alone, so that parts can have budgets before they are coded."""
    controller = load_minigop_controller(policy)
    # One with offsets of its own may ask for features of the pictures, which parts are not analysed for.
    return isinstance(controller, RateModel) and type(controller).offsets is RateModel.offsets


@dataclass(frozen=True)
class EncodedParts:
    """A video whose parts are coded; `found` of them were there from an earlier time."""

    clip: Clip
    parts: tuple[CodedPart, ...]
    target_kbps: float
    passes: int
    found: int

    def packets(self) -> Iterator[bytes]:
        return joined(self.parts)

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def kbps(self) -> float:
        return self.size_bytes * 8 / self.clip.duration_s / 1000

    @property
    def psnr_y(self) -> float | None:
        """Mean of the frames' luma PSNR in dB, where it was measured."""
        total = 0.0
        for part in self.parts:
            if part.psnr_y is None:
                return None
            total += part.psnr_y * part.frames
        return total / self.clip.frame_count

    @property
    def deltas(self) -> list[float]:
        return [delta for part in self.parts for delta in part.deltas]


def encode_parts(job: PartsJob, folder: PartsFolder) -> EncodedParts:
    """Code the video into the folder; what is finished in it is taken over."""
    clip, settings = job.clip, job.settings.for_clip(job.clip)
    with executor(job.workers, restarts=RESTARTS) as workers:
        seen = scan(clip, _enough(workers, -(-clip.frame_count // STRETCH)))
        parts = cut(seen.novelty, clip.fps, settings.keyint)
        work = _enough(workers, len(parts))
        prober = Prober(clip, parts, seen, settings, work)
        probes = prober.at_crf() if job.kbps is None else prober.at_rate(job.kbps * 1000 * clip.duration_s)
        whole = _episode(job, settings, probes)
        controller = load_minigop_controller(job.policy)
        assert isinstance(controller, RateModel)  # noqa: S101 - the job has checked it
        budgets = part_budgets(controller, whole, [len(plan.minigops) for plan in probes.plans])
        tasks = []
        for part, plan, bits in zip(parts, probes.plans, budgets, strict=True):
            budget = Budget(bits, plan, whole.octaves_per_qp, job.policy)
            file = folder.file(seen.key(part), settings, job.seed, *budget.facts)
            tasks.append(PartTask(clip, part, settings, file, budget, seed=job.seed))
        done = {task.part.number: there for task in tasks if (there := finished(task)) is not None}
        left = [task for task in tasks if task.part.number not in done]
        coded = side_by_side(work, code_part, left, "encode", float(clip.fps))
    done |= {part.number: part for part in coded}
    in_order = tuple(done[part.number] for part in parts)
    return EncodedParts(clip, in_order, whole.kbps, probes.passes + 1, len(tasks) - len(left))


def _enough(workers: Executor, tasks: int) -> Executor:
    """One task is done here: a process of its own would only take a second to start."""
    return workers if tasks > 1 else InProcess()


def _episode(job: PartsJob, settings: EncoderSettings, probes: Probes) -> MiniGopEpisode:
    """The whole video as one controller would see it."""
    clip = job.clip
    kbps = probes.bits / clip.duration_s / 1000 if job.kbps is None else job.kbps
    return MiniGopEpisode(
        clip=clip.name,
        width=clip.width,
        height=clip.height,
        frames=clip.frame_count,
        fps=clip.fps,
        goal="vbr",
        kbps=kbps,
        budget_bits=kbps * 1000 * clip.duration_s,
        buffer_s=math.inf,
        feedback_lag=least_lag(settings),
        passes=probes.passes,
        plan=tuple(planned for plan in probes.plans for planned in plan.minigops),
        octaves_per_qp=probes.octaves_per_qp,
    )
