"""Where finished parts wait until all are there: a folder beside the output, which a killed encode leaves behind.

A part's file is named by all that its bytes depend on, its pictures included: a folder of another video or of other
settings holds nothing that could be taken for a part of this one.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from reelrl.encode.codecs.backends import capabilities
from reelrl.settings.config import to_mapping
from reelrl.storage.cache import key_of
from reelrl.storage.files import writable_folder
from reelrl.storage.locks import FolderLock

if TYPE_CHECKING:
    from reelrl.encode.codecs.settings import EncoderSettings

VERSION = 1
"""Raise it when the same settings code a part differently."""

_UNSEEN = {"deadline_s"}  # changes no byte of the stream


class PartsFolder:
    """Held by one encode at a time; `close` removes it when it is empty, `remove` in any case."""

    def __init__(self, output: str | Path, *, resume: bool = False) -> None:
        output = Path(output)
        self.path = output.with_name(f".{output.name}.parts")
        if not resume:
            # Before it is locked: the lock is a file in it. An encode that is at work there keeps its own by the lock.
            self._refuse_when_held()
            shutil.rmtree(self.path, ignore_errors=True)
        writable_folder(self.path)
        self._lock: FolderLock | None = self._locked()

    def file(self, content: str, settings: EncoderSettings, *facts: Any) -> Path:
        """Where the part with these pictures is or will be."""
        return part_file(self.path, content, settings, *facts)

    @property
    def finished(self) -> int:
        """How many parts are there."""
        return sum(1 for _ in self.path.glob("[!.]*.json"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; the parts stay."""
        if not self.finished:
            self.remove()
        self._release()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _locked(self) -> FolderLock:
        return FolderLock(self.path, advice="wait for that encode, or write to another file")

    def _refuse_when_held(self) -> None:
        if self.path.is_dir():
            with suppress(FileNotFoundError):
                self._locked().release()


def part_file(folder: Path, content: str, settings: EncoderSettings, *facts: Any) -> Path:
    """The same in the folder of an encode, for its worker processes."""
    chosen = {name: value for name, value in to_mapping(settings).items() if name not in _UNSEEN}
    return folder / f"{key_of([VERSION, content, chosen, capabilities(settings.backend).version, *facts])}.ivf"
