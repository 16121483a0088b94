"""Waiting until an encoder's threads have come to rest.

SVT-AV1 in low delay keeps so few reference buffers that it can lock up for good when the next picture arrives
before its threads have finished cleaning up after the last one: the packet is already out, the buffer not yet back,
and the thread that would free it waits for the thread that wants it. On a busy machine that struck one session in
six. A picture sent to sleeping threads never does it, and looking whether three threads sleep costs 10 microseconds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TASKS = Path("/proc/self/task")
_SLEEPING = b"S"
# Long enough for any clean-up, short enough not to matter should a thread that is not the encoder's be watched.
_LIMIT_S = 0.05


def thread_ids() -> frozenset[int]:
    """Ids of the threads of this process; empty where there is no /proc."""
    return frozenset(int(task.name) for task in _TASKS.iterdir()) if _TASKS.exists() else frozenset()


class ThreadWatch:
    """Sees whether some threads of this process sleep."""

    def __init__(self, threads: Iterable[int]) -> None:
        self._files = [os.open(_TASKS / str(thread) / "stat", os.O_RDONLY) for thread in threads]

    def wait(self) -> None:
        """Return once all sleep."""
        started = time.monotonic()
        while not all(map(_sleeps, self._files)) and time.monotonic() - started < _LIMIT_S:
            time.sleep(0)  # give the core to those we wait for

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _sleeps(file: int) -> bool:
    # "123 (name) S ...": the name may hold anything, the state follows the last bracket.
    return os.pread(file, 96, 0).rpartition(b")")[2][1:2] == _SLEEPING
