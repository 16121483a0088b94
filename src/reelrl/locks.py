"""One writer per folder: a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from reelrl.errors import RunError
from reelrl.files import explain_os_error

if TYPE_CHECKING:
    from pathlib import Path


class FolderLock:
    """Held from construction to `release`. The file `.lock` names the holder; the lock itself is the kernel's."""

    def __init__(self, folder: Path) -> None:
        path = folder / ".lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise RunError(explain_os_error(error, path, "lock")) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = _holder(os.pread(self._descriptor, 20, 0))
            self.release()
            raise RunError(f"{folder} is being written by {holder}; wait for it, stop it, or start a new run") from None
        except OSError as error:
            self.release()
            raise RunError(explain_os_error(error, path, "lock")) from error

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


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
