"""A file that PyAV writes to, which remembers why it could not be written: PyAV tells it the first time, or never."""

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

    Ctrl+C is remembered too: PyAV loses one that lands in Python code which it calls.
    """

    failure: BaseException | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "w+b"))

    def write(self, data: Any) -> int:
        if self.failure is not None:
            raise OSError("the file is given up")
        try:
            return super().write(data)
        except BaseException as error:
            self.failure = error
            raise OSError("the file is given up") from error

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except BaseException as error:
            self.failure = self.failure or error
            raise OSError("the file is given up") from error

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raise what went wrong in the file in place of what PyAV makes of it."""
        try:
            yield
        except (OSError, av.FFmpegError):
            if self.failure is None:
                raise
        if self.failure is not None:
            raise self.failure

    def give_up(self) -> None:
        """Close it, whether or not what is left can be written; PyAV then adds nothing to it."""
        with suppress(OSError):  # the disk may be full
            self.close()
