"""Parts coded wherever there is a worker: where their folder is not seen, a part's files come home with its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reelrl.encode.parts.board import on_board
from reelrl.encode.parts.coding import CodedPart, PartTask, code_part, finished
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.parts.board import TaskProgress
    from reelrl.parallel import Executor


@dataclass(frozen=True)
class SentPart:
    """A part, and the files of it that its folder does not have yet."""

    part: CodedPart
    files: dict[str, bytes]

    def received(self) -> CodedPart:
        """The part with its files in its folder, where an encode that was stopped finds them again."""
        folder = Path(self.part.file).parent
        # The facts come last: a part is finished when they are there.
        for name in sorted(self.files, key=lambda name: name.endswith(".json")):
            write_atomic(own_path(folder / name), self.files[name])
        return self.part


def code_anywhere(work: Executor, tasks: Sequence[PartTask], places: Sequence[TaskProgress]) -> list[CodedPart]:
    """The parts in the order of the tasks, all in their folder; those that are finished there are not sent away."""
    coded = {
        number: code_part(replace(task, place=places[number]))
        for number, task in enumerate(tasks)
        if finished(task) is not None
    }
    left = [number for number in range(len(tasks)) if number not in coded]
    sent = on_board(
        work, code_part_away, [tasks[number] for number in left], [places[number] for number in left], SentPart.received
    )
    coded |= dict(zip(left, sent, strict=True))
    return [coded[number] for number in range(len(tasks))]


def code_part_away(task: PartTask) -> SentPart:
    """Code a part into its folder or, where that is not seen, into one of this machine's own."""
    if task.file.parent.is_dir():
        return SentPart(code_part(task), {})
    with TemporaryDirectory(prefix="reelrl-") as folder:
        part = code_part(replace(task, file=Path(folder) / task.file.name))
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return SentPart(replace(part, file=str(task.file)), files)
