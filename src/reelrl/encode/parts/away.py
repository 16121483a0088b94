"""Parts coded wherever there is a worker: where their folder is not seen, a part's files come home with its record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reelrl.encode.parts.board import named
from reelrl.encode.parts.coding import CodedPart, PartTask, code_part
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def code_anywhere(work: Executor, tasks: list[PartTask]) -> Iterator[CodedPart]:
    """The parts in the order of the tasks, each in its folder when it comes; the list may grow meanwhile."""
    for sent in work.map(code_part_away, tasks, name=named):
        yield sent.received()


def code_part_away(task: PartTask) -> SentPart:
    """Code a part into its folder or, where that is not seen, into one of this machine's own."""
    if task.coded is not None or task.file.parent.is_dir():
        return SentPart(code_part(task), {})
    with TemporaryDirectory(prefix="reelrl-") as folder:
        part = code_part(replace(task, file=Path(folder) / task.file.name))
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return SentPart(replace(part, file=str(task.file)), files)
