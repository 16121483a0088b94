"""Keeping encoder threads at ordinary priority.

SVT-AV1 started by root puts the calling thread, and every thread it then makes, into the kernel's real-time class at
the highest priority: they starve the rest of the machine. Whoever opens such an encoder, ours or PyAV's `libsvtav1`,
does it inside `normal_scheduling()`. PyAV opens on the first `encode`, so that call belongs inside too:

    with normal_scheduling():
        for frame in frames:
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

What root may do is a set of capabilities, one set per thread. Inside, the calling thread does without the one for
raising priorities (CAP_SYS_NICE); the encoder asks for real time, is refused, and goes on as it does for other users.
"""

from __future__ import annotations

import os
import resource
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cffi

if TYPE_CHECKING:
    from collections.abc import Iterator

_TASKS = Path("/proc/self/task")
Class = tuple[int, int]

_SYS_NICE = 1 << 23
_ffi: Any = cffi.FFI()
_ffi.cdef("""
typedef struct { uint32_t version; int pid; } Header;
typedef struct { uint32_t effective, permitted, inheritable; } Set;
int capget(Header* header, Set* sets);
int capset(Header* header, Set* sets);
""")
_libc = _ffi.dlopen(None)


def thread_classes() -> dict[int, Class]:
    """Scheduling policy and priority of each thread of this process, by thread id."""
    classes = {}
    for task in _TASKS.iterdir() if _TASKS.exists() else ():
        with suppress(ProcessLookupError):  # a thread that ended while we looked
            classes[int(task.name)] = _class_of(int(task.name))
    return classes


@contextmanager
def normal_scheduling() -> Iterator[None]:
    """Inside, neither the calling thread nor one that it starts can raise its priority; it may again afterwards.

    Threads started inside stay as they are: at the caller's class, and without the capability.
    """
    if not _TASKS.exists():  # no Linux: nothing to hold it with
        yield
        return
    own, could = _class_of(0), _may_raise(False)
    try:
        with _no_real_time_for_users:
            yield
    finally:
        if could:
            _may_raise(True)
        if _class_of(0) != own:  # where capabilities cannot be changed, the caller at least comes back
            os.sched_setscheduler(0, own[0], os.sched_param(own[1]))


def _class_of(thread: int) -> Class:
    return os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority


def _may_raise(allowed: bool) -> bool:
    """Set whether the calling thread may raise priorities; returns whether it might before."""
    header, sets = _ffi.new("Header*", (0x20080522, 0)), _ffi.new("Set[2]")
    if _libc.capget(header, sets):
        return False
    before = bool(sets[0].effective & _SYS_NICE)
    if before != allowed:
        sets[0].effective ^= _SYS_NICE
        _libc.capset(header, sets)
    return before


class _RealTimeLimit:
    """Takes away, while anybody is inside, the real-time priority that a limit grants without the capability.

    Usually it grants none. The limit is the process's, so those who hold it are counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._soft = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            soft, hard = resource.getrlimit(resource.RLIMIT_RTPRIO)
            if self._inside == 1:
                self._soft = soft
            if soft:
                resource.setrlimit(resource.RLIMIT_RTPRIO, (0, hard))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._soft:
                hard = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
                resource.setrlimit(resource.RLIMIT_RTPRIO, (self._soft, hard))


_no_real_time_for_users = _RealTimeLimit()
