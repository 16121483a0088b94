"""A file that PyAV writes to, which remembers why it could not be written."""

from __future__ import annotations

import io
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import av

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class OutputFile(io.BufferedRandom):
    """To be given to `av.open`; what happens in `failures` is raised as what it was.

    PyAV is told nothing: it prints errors that it cannot hand on, and loses a Ctrl+C that lands in Python code which it
    calls. After a failure nothing more is written.
    """

    failure: BaseException | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "w+b"))

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except BaseException as error:  # noqa: BLE001 - `failures` raises it
                self.failure = error
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        if self.failure is None:
            try:
                return super().seek(offset, whence)
            except BaseException as error:  # noqa: BLE001 - `failures` raises it
                self.failure = error
        return offset

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raise what went wrong in the file in place of what PyAV makes of it."""
        try:
            yield
        except (OSError, av.FFmpegError):
            self.check()
            raise
        self.check()

    def give_up(self) -> None:
        """Close it, whether or not what is left can be written; PyAV then adds nothing to it."""
        with suppress(OSError):  # the disk may be full
            self.close()
