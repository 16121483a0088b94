"""One part coded: to a budget by its plan, or as the settings say. A task for `reelrl.parallel`, alone in its process.

The packets go into a file of the parts' folder, named by all that they depend on. A part that is there already is not
coded again.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl.content.clip import Clip
from reelrl.content.write.video import IvfReader, IvfWriter
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.rules import FixedDeltas
from reelrl.encode.minigop.protocols import possible_delta
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.plan import ClipPlan
from reelrl.encode.minigop.source.preparation import opening_qp, planned_source
from reelrl.encode.parts.board import TaskProgress
from reelrl.encode.parts.cuts import VideoPart
from reelrl.encode.parts.held_controller import ROOM, HeldController
from reelrl.errors import ContentError
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.minigop.protocols import MiniGopController


@dataclass(frozen=True)
class Budget:
    """What a part may take, and the plan to spend it by.

    octaves_per_qp  what a QP step takes from the bits
    deltas          planned for its mini-GOPs
    ratio           what the encode takes of the plan's bits
    policy          name of the controller that holds the part to its bits, near these deltas; without one they are
                    followed, and the part takes what it takes
    session_qp      QP that the encoder is opened at; None chooses it by the plan
    room            QP steps from these deltas that the controller may go, either way
    """

    bits: float
    plan: ClipPlan
    octaves_per_qp: float
    deltas: tuple[float, ...]
    ratio: float = 1.0
    policy: str | None = None
    session_qp: int | None = None
    room: float = ROOM

    @property
    def opening_qp(self) -> int:
        """QP that the encoder is opened at."""
        if self.session_qp is not None:
            return self.session_qp
        return opening_qp(self.plan.scaled(self.ratio), self.bits, self.octaves_per_qp)

    def controller(self) -> MiniGopController:
        if self.policy is None:
            return FixedDeltas([possible_delta(delta) for delta in self.deltas])
        return HeldController(load_minigop_controller(self.policy), self)

    def expected_bits(self, deltas: Sequence[float]) -> float:
        """What the first mini-GOPs, or all, take with these deltas by the plan alone, without the ratio."""
        return sum(
            (planned.probe_bits or 0) * math.exp2(-self.octaves_per_qp * delta)
            for planned, delta in zip(self.plan.minigops, deltas, strict=False)
        )

    @property
    def facts(self) -> list[Any]:
        """All that the part's bytes depend on, as plain data."""
        planned = [(minigop.layer_qps, minigop.probe_bits, minigop.probe_sse) for minigop in self.plan.minigops]
        decided = [self.policy, self.deltas, self.opening_qp, self.room]
        return [self.bits, self.octaves_per_qp, self.ratio, *decided, self.plan.qp, planned]


@dataclass(frozen=True)
class PartTask:
    """A part to code.

    settings  as of an encoder session for this clip; without a budget they are all there is: rate control "crf" codes
              the part at `settings.qp`
    file      where its packets go (.ivf)
    place     where to note how far it is
    coded     the part, where it is known to be finished
    """

    clip: Clip
    part: VideoPart
    settings: EncoderSettings
    file: Path
    budget: Budget | None = None
    place: TaskProgress | None = None
    seed: int = 0
    coded: CodedPart | None = None


@dataclass(frozen=True)
class CodedPart:
    """A part that is coded.

    qps            QP of each picture, in display order
    deltas         what was decided for each mini-GOP; empty without a budget
    expected_bits  what the plan said that these take; 0 without a budget
    session_qp     QP that the encoder was opened at
    psnr_y         mean of the frames' luma PSNR in dB; None where it was not measured
    scored         (frames, CRF, figure) of each stretch that was scored on the way, encode by encode; the last stays
    """

    number: int
    frames: int
    size_bytes: int
    file: str
    qps: list[int]
    deltas: list[float]
    expected_bits: float
    session_qp: int
    psnr_y: float | None
    scored: list[list[list[float]]] = field(default_factory=list)

    def packets(self) -> Iterator[bytes]:
        return iter(IvfReader(self.file))


def code_part(task: PartTask) -> CodedPart:
    """Code a part, or find it coded."""
    coded = task.coded or finished(task)
    if coded is not None:
        if task.place is not None:
            task.place.finish(coded.frames, coded.size_bytes)
        return coded
    coding = _coded_freely(task) if task.budget is None else _coded_to_budget(task, task.budget)
    return stored(task, coding)


def finished(task: PartTask) -> CodedPart | None:
    """The part as an earlier encode left it; None where there is none that is whole."""
    try:
        facts = json.loads(read_regular(_facts_path(task.file)))
        coded = CodedPart(**{**facts, "number": task.part.number, "file": str(task.file)})
        sizes = [len(packet) for packet in coded.packets()]
    except (OSError, ValueError, TypeError, ContentError):
        return None
    return coded if len(sizes) == coded.frames == task.part.frames and sum(sizes) == coded.size_bytes else None


def joined(parts: Sequence[CodedPart]) -> Iterator[bytes]:
    """The packets of all parts, one after the other."""
    for part in parts:
        yield from part.packets()


class PartStream(NamedTuple):
    """What came out of an encoder for a part."""

    packets: list[Packet]
    deltas: list[float]
    session_qp: int


def _coded_freely(task: PartTask) -> PartStream:
    packets: list[Packet] = []
    with EncoderSession(task.settings) as session:
        for packet in session.encode(_watched(task, packets)):
            packet.recon = None
            packets.append(packet)
    return PartStream(packets, [], task.settings.qp)


def _coded_to_budget(task: PartTask, budget: Budget) -> PartStream:
    packets: list[Packet] = []
    clip = _watched(task, packets)
    source = planned_source(
        clip,
        task.settings,
        budget.plan.scaled(budget.ratio),
        kbps=budget.bits / clip.duration_s / 1000,
        octaves_per_qp=budget.octaves_per_qp,
        session_qp=budget.opening_qp,
    )
    source.packets = packets
    run = run_controller(source, budget.controller(), task.seed)
    return PartStream(packets, list(run.deltas), source.settings.qp)


def _watched(task: PartTask, packets: list[Packet]) -> Clip:
    """The part's frames; whoever reads them notes how far the work is."""
    clip, place = task.clip.window(task.part.first, task.part.frames), task.place
    return (
        clip if place is None else replace(clip, start_reading=lambda start: place.counted(clip.frames(start), packets))
    )


def stored(task: PartTask, coding: PartStream, scored: Sequence[Sequence[tuple[Any, ...]]] = ()) -> CodedPart:
    """Write a part that was coded, with what was scored of its encodes."""
    settings, packets = task.settings, coding.packets
    with IvfWriter(task.file, settings.width, settings.height, settings.fps) as writer:
        for packet in packets:
            writer.write(packet.data)
    measured = all(packet.sse is not None for packet in packets)
    coded = CodedPart(
        number=task.part.number,
        frames=len(packets),
        size_bytes=sum(packet.size for packet in packets),
        file=str(task.file),
        qps=[packet.qp for packet in packets],
        deltas=coding.deltas,
        expected_bits=0.0 if task.budget is None else task.budget.expected_bits(coding.deltas),
        session_qp=coding.session_qp,
        psnr_y=sum(packet.psnr[0] for packet in packets) / len(packets) if measured else None,
        scored=[[list(each) for each in stretches] for stretches in scored],
    )
    write_atomic(own_path(_facts_path(task.file)), json.dumps(asdict(coded)))
    return coded


def _facts_path(file: Path) -> Path:
    return file.with_suffix(".json")
