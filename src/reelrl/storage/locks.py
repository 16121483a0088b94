"""One writer per folder: a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from reelrl.errors import RunError
from reelrl.storage.files import explain_os_error
from reelrl.storage.regular_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """Held from construction to `release`. The file `name` tells the holder; the lock itself is the kernel's."""

    def __init__(
        self, folder: Path, name: str = ".lock", *, advice: str = "wait for it, stop it, or start a new run"
    ) -> None:
        path = folder / name
        try:
            self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunError(explain_os_error(error, path, "lock")) from error
        try:
            _take(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            with suppress(OSError):  # a full disk keeps the name out, not the lock
                os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = _holder(os.pread(self._descriptor, 20, 0))
            self.release()
            raise RunError(f"{folder} is being written by {holder}; {advice}") from None
        except OSError as error:
            self.release()
            raise RunError(explain_os_error(error, path, "lock")) from error

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _take(descriptor: int, tries: int = 10) -> None:
    for _ in range(tries - 1):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)  # somebody who only asks whether it is held (`is_locked`) holds it for an instant
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(folder: Path, name: str = ".lock") -> bool:
    """Whether somebody holds the lock, who may be another process or this one."""
    try:
        # Only to read: closing what might have been written would be an event to those who wait for the folder.
        descriptor = open_regular(folder / name)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(text: bytes) -> str:
    if not text.isdigit():
        return "another process"
    pid = int(text)
    if pid == os.getpid():
        return f"this process ({pid})"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        # A worker forked from the writer shares its lock and has outlived it.
        return f"a child that process {pid} left behind"
    except PermissionError:
        pass
    return f"process {pid}"
