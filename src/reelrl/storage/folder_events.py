"""Waiting until something is written to a folder, without looking again and again."""

from __future__ import annotations

import ctypes
import os
import select
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CLOSE_WRITE, _MOVED_TO = 0x8, 0x80  # of <sys/inotify.h>


class FolderEvents:
    """Ends a pause when a file of the folder is written and closed, or renamed into it.

    Events are a hint: there are none where the system lacks inotify or has no watches left, and none of what another
    machine writes to a network disk. A pause then lasts its full time, and callers look at the folder after each.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = _watch(folder)
        if self.available:
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)
            self._close = weakref.finalize(self, os.close, self._descriptor)

    @property
    def available(self) -> bool:
        """Whether there are events at all."""
        return self._descriptor >= 0

    def pause(self, seconds: float) -> None:
        """Return after this time, or at once where something was written since the last pause."""
        if not self.available:
            time.sleep(seconds)
        elif self._poll.poll(seconds * 1000):
            with suppress(BlockingIOError):
                os.read(self._descriptor, 1 << 16)

    def close(self) -> None:
        """Let go of the watch; pauses last their full time from now on."""
        if self.available:
            self._descriptor = -1
            self._close()


def _watch(folder: Path) -> int:
    """A descriptor that can be read when there is an event; -1 where there will be none."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):  # another system than Linux
        return -1
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO) < 0:
        os.close(descriptor)
        return -1
    return descriptor
