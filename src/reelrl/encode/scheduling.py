"""Keeping encoder threads at ordinary priority.

SVT-AV1 started by root puts the calling thread, and every thread it then makes, into the kernel's real-time
class at the highest priority: they starve the rest of the machine. Whoever opens such an encoder, ours or
PyAV's `libsvtav1`, does it inside `normal_scheduling()`.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TASKS = Path("/proc/self/task")
Class = tuple[int, int]
# One at a time: who looked while another was in real time would put it back there.
_lock = threading.RLock()


def thread_classes() -> dict[int, Class]:
    """Scheduling policy and priority of each thread of this process, by thread id."""
    found = {}
    for task in _TASKS.iterdir() if _TASKS.exists() else ():
        try:
            tid = int(task.name)
            found[tid] = (os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority)
        except ProcessLookupError:  # a thread that ended while we looked
            continue
    return found


@contextmanager
def normal_scheduling() -> Iterator[None]:
    """On leaving, threads that changed class go back, and new threads take the class the caller had."""
    with _lock:
        before = thread_classes()
        own = (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) if before else None
        try:
            yield
        finally:
            if own is not None:
                # The caller first: while it runs in real time nothing else on this core does.
                _set(0, own)
                for tid, now in thread_classes().items():
                    wanted = before.get(tid, own)
                    if now != wanted:
                        _set(tid, wanted)


def _set(tid: int, wanted: Class) -> None:
    with suppress(ProcessLookupError):
        os.sched_setscheduler(tid, wanted[0], os.sched_param(wanted[1]))
