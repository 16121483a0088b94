"""Tasks of parts side by side, and how far they are: each writes to its place of a small file, which one process reads.

side_by_side(work, probe_part, tasks, "probe") ──► records in the order of the tasks, progress on stderr
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from reelrl.parallel import InProcess
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.parts.cuts import VideoPart
    from reelrl.parallel import Executor

T = TypeVar("T", bound="TaskOfPart")
R = TypeVar("R")

_PERIOD_S = 0.25
_COLUMNS = 3


@dataclass(frozen=True)
class TaskProgress:
    """Where one task notes how many frames it has read, how many are coded, and in how many bytes."""

    board: Path
    number: int

    def finish(self, frames: int, size_bytes: int) -> None:
        self._row()[...] = frames, frames, size_bytes

    def counted(self, frames: Iterable[Frame], packets: Sequence[Packet] = ()) -> Iterator[Frame]:
        """The frames, noted as they are read, with the bytes of the packets that are there by then."""
        row = self._row()
        row[...] = 0  # a task that was begun anew
        seen = size_bytes = 0
        for number, frame in enumerate(frames):
            size_bytes += sum(packet.size for packet in packets[seen:])
            seen = len(packets)
            row[...] = number, seen, size_bytes
            yield frame
        row[0] += 1

    def _row(self) -> NDArray[np.int64]:
        if not self.board.exists():  # on another machine, where nobody looks
            return np.zeros(_COLUMNS, np.int64)
        row: NDArray[np.int64] = np.memmap(
            self.board, np.int64, "r+", offset=8 * _COLUMNS * self.number, shape=_COLUMNS
        )
        return row


class ProgressBoard:
    """A board with a place for each of some tasks."""

    def __init__(self, path: Path, places: int) -> None:
        self._path = path
        self._rows = np.memmap(path, np.int64, "w+", shape=(max(places, 1), _COLUMNS))

    def place(self, number: int) -> TaskProgress:
        return TaskProgress(self._path, number)

    def totals(self) -> tuple[int, int, int]:
        """Frames read, frames coded, bytes."""
        read, coded, size_bytes = self._rows.sum(axis=0).tolist()
        return read, coded, size_bytes


class TaskOfPart(Protocol):
    """A task of `reelrl.parallel`: a frozen dataclass with these fields."""

    @property
    def part(self) -> VideoPart: ...

    @property
    def place(self) -> TaskProgress | None: ...


def side_by_side(work: Executor, function: Callable[[T], R], tasks: Sequence[T], label: str) -> list[R]:
    """Records of all tasks, in their order; how far they are is shown.

    The longest are begun first, so that the end finds all at work.
    """
    work = enough(work, len(tasks))
    longest_first = sorted(range(len(tasks)), key=lambda number: -tasks[number].part.frames)
    with shown_board(label, [task.part for task in tasks]) as board:
        placed = [_placed(tasks[number], board.place(number)) for number in longest_first]
        by_number = dict(zip(longest_first, work.map(function, placed, name=named), strict=True))
    return [by_number[number] for number in range(len(tasks))]


def enough(workers: Executor, tasks: int) -> Executor:
    """One task is done here: a process of its own would only take a second to start."""
    return workers if tasks > 1 else InProcess()


def named(task: TaskOfPart) -> str:
    """How errors name a task."""
    return f"frames {task.part.first} to {task.part.end - 1}"


def _placed(task: T, place: TaskProgress) -> T:
    placed: T = replace(task, place=place)  # type: ignore[type-var]
    return placed


@contextmanager
def shown_board(label: str, parts: Sequence[VideoPart], fps: float | None = None) -> Iterator[ProgressBoard]:
    """A board with a place for each part, whose totals are shown; with `fps` also the bitrate so far."""
    total = sum(part.frames for part in parts)
    with (
        Progress(label, total, unit="frames") as progress,
        TemporaryDirectory(prefix="reelrl-") as folder,
    ):
        board, done = ProgressBoard(Path(folder) / "board", len(parts)), threading.Event()

        def show() -> None:
            read, coded, size_bytes = board.totals()
            rate = {"kbit/s": 8 * size_bytes * fps / coded / 1000} if fps and coded else {}
            progress.update(read - progress.done, **rate)

        def watch() -> None:
            while not done.wait(_PERIOD_S):
                show()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield board
        finally:
            done.set()
            thread.join()
            show()
