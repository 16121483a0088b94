"""A whole video by parts: read once, cut, probed, given budgets, coded side by side.

clip ─► scan ─► cut ─► probe every part ─► budget of each part ─► code_part in worker processes ─► joined
                                                  └─────────◄── what it took, for parts a window later

Nothing here depends on how many work at once, nor on which part is done first: the same command writes the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.rules import RateModel
from reelrl.encode.minigop.protocols import MiniGopEpisode
from reelrl.encode.minigop.source.in_process import least_lag
from reelrl.encode.parts.again import TIMES, budget_again, to_code_again
from reelrl.encode.parts.away import code_anywhere
from reelrl.encode.parts.board import enough, shown_board
from reelrl.encode.parts.budgets import PartBudgets
from reelrl.encode.parts.coding import CodedPart, PartTask, finished, joined
from reelrl.encode.parts.cuts import cut
from reelrl.encode.parts.held_controller import ROOM, ROOM_OF_FEW
from reelrl.encode.parts.probing import Prober
from reelrl.encode.parts.scan import scan
from reelrl.encode.parts.window import FEW, coding_order, is_held, planned
from reelrl.errors import ConfigError
from reelrl.parallel import executor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reelrl.encode.parts.board import ProgressBoard
    from reelrl.encode.parts.coding import Budget
    from reelrl.encode.parts.cuts import VideoPart
    from reelrl.encode.parts.folder import PartsFolder
    from reelrl.encode.parts.probing import Probes
    from reelrl.encode.parts.scan import Scan
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
        seen = scan(clip, workers)
        parts = cut(seen.novelty, clip.fps, settings.keyint)
        work = enough(workers, len(parts))
        prober = Prober(clip, parts, seen, settings, work)
        probes = prober.at_crf() if job.kbps is None else prober.at_rate(job.kbps * 1000 * clip.duration_s)
        whole = _episode(job, settings, probes)
        controller = load_minigop_controller(job.policy)
        assert isinstance(controller, RateModel)  # noqa: S101 - the job has checked it
        coder = _PartCoder(job, folder, seen, work)
        budgets = PartBudgets(controller, whole, probes, job.policy)
        with shown_board("encode", parts, float(clip.fps)) as board:
            coder.code_all(parts, budgets, board)
            coder.correct(whole.budget_bits, board)
    return EncodedParts(clip, coder.in_order, whole.kbps, probes.passes + 1, coder.found)


class _PartCoder:
    """Codes parts by their budgets, and remembers them in the order in which they were coded."""

    def __init__(self, job: PartsJob, folder: PartsFolder, seen: Scan, work: Executor) -> None:
        self._job, self._folder, self._seen, self._work = job, folder, seen, work
        self._tasks: dict[int, PartTask] = {}
        self._coded: dict[int, CodedPart] = {}
        self._found: set[int] = set()

    @property
    def found(self) -> int:
        """How many parts were there from an earlier time."""
        return len(self._found)

    @property
    def in_order(self) -> tuple[CodedPart, ...]:
        return tuple(self._coded[number] for number in sorted(self._coded))

    def code_all(self, parts: Sequence[VideoPart], budgets: PartBudgets, board: ProgressBoard) -> None:
        """Code them side by side, each by what those a window before it took."""
        order, room = coding_order(parts), ROOM_OF_FEW if len(parts) < FEW else ROOM
        tasks: list[PartTask] = []

        def plan(end: int) -> None:
            for place in range(len(tasks), end):
                budget = budgets.plan(order[place].number, hold=is_held(place, len(order)), room=room)
                tasks.append(self._task(order[place], budget, board))

        plan(planned(0, len(order)))
        for done, coded in enumerate(self._code(tasks), 1):
            budgets.finish(coded)
            plan(planned(done, len(order)))

    def _code(self, tasks: list[PartTask]) -> Iterator[CodedPart]:
        for number, coded in enumerate(code_anywhere(self._work, tasks)):
            self._tasks[coded.number], self._coded[coded.number] = tasks[number], coded
            yield coded

    def correct(self, budget_bits: float, board: ProgressBoard) -> None:
        """Code a few parts again while all together are too far from the budget."""
        for _ in range(TIMES):
            # The latest first: they were to make up for the others already.
            chosen, change = to_code_again(reversed(self._coded.values()), budget_bits)
            if not chosen:
                return
            before = dict(self._coded)
            tasks = [self._tasks[coded.number] for coded in chosen]
            again = [
                self._task(task.part, budget_again(task.budget, coded, change), board)
                for task, coded in zip(tasks, chosen, strict=True)
                if task.budget is not None
            ]
            for _ in self._code(again):
                pass
            if abs(_bits(self._coded) - budget_bits) > abs(_bits(before) - budget_bits):
                self._coded = before
                return

    def _task(self, part: VideoPart, budget: Budget, board: ProgressBoard) -> PartTask:
        """To code a part; what is finished in the folder is taken over."""
        job = self._job
        settings = job.settings.for_clip(job.clip)
        file = self._folder.file(self._seen.key(part), settings, job.seed, *budget.facts)
        task = PartTask(job.clip, part, settings, file, budget, board.place(part.number), job.seed)
        coded = finished(task)
        self._found.discard(part.number)
        if coded is not None:
            self._found.add(part.number)
        return replace(task, coded=coded)


def _bits(coded: Mapping[int, CodedPart]) -> int:
    return sum(8 * part.size_bytes for part in coded.values())


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
        octaves_per_qp=sum(probes.slopes) / len(probes.slopes),
    )
