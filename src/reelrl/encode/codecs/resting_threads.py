"""Waiting until an encoder's threads have come to rest.

SVT-AV1 in low delay keeps so few reference buffers that it can lock up for good when the next picture arrives
before its threads have finished cleaning up after the last one: the packet is already out, the buffer not yet back,
and the thread that would free it waits for the thread that wants it. On a busy machine that struck one short session
in seven (`benchmarks/encode_lockups.py`). A picture sent to sleeping threads never did it, and to look whether three
threads sleep costs some 30 microseconds.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TASKS = Path("/proc/self/task")
_marks = count()
_SLEEPING = b"S"
# Long enough for any clean-up, short enough not to matter should a thread that is not the encoder's be watched.
_LIMIT_S = 0.05


def threads_started_by(start: Callable[[], None]) -> list[int]:
    """Ids of the threads that `start` starts, in order; empty where there is no /proc.

    Whatever else starts threads meanwhile: a thread takes its maker's name, so the caller bears a mark while it calls.
    """
    own = threading.get_native_id()
    if not _name_file(own).exists():
        start()
        return []
    usual, mark = _name(own), f"encoder-{next(_marks)}"
    _name_file(own).write_text(mark)
    try:
        start()
        others = (int(task.name) for task in _TASKS.iterdir())
        return sorted(thread for thread in others if thread != own and _name(thread) == mark)
    finally:
        _name_file(own).write_text(usual)


class ThreadWatch:
    """Sees whether some threads of this process sleep."""

    def __init__(self, threads: Iterable[int]) -> None:
        self._files = _opened(threads, "stat")

    def wait(self) -> None:
        """Return once all sleep."""
        started = time.monotonic()
        while not all(map(_sleeps, self._files)) and time.monotonic() - started < _LIMIT_S:
            time.sleep(0)  # give the core to those we wait for

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


class RestWatch:
    """Sees whether some threads of this process are all asleep at one instant: none works, none is about to."""

    def __init__(self, threads: Iterable[int]) -> None:
        self._files = _opened(threads, "status")

    def at_rest(self) -> bool:
        """Whether there was an instant, during this call, at which all slept.

        One look at each is not enough: while the later ones are looked at, they may wake the earlier. Two looks are, if
        nobody has gone to sleep again in between.
        """
        seen = []
        for place, file in enumerate(self._files):
            seen.append(_state_and_switches(file))
            if seen[-1][0] != _SLEEPING:
                self._files.insert(0, self._files.pop(place))  # who works now is the first to look at next time
                return False
        return [_state_and_switches(file) for file in self._files] == seen

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _opened(threads: Iterable[int], name: str) -> list[int]:
    files = []
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended rests
            files.append(os.open(_TASKS / str(thread) / name, os.O_RDONLY))
    return files


def _state_and_switches(file: int) -> tuple[bytes, bytes]:
    """A thread's state, and how often it has given up its core or lost it."""
    try:
        text = os.pread(file, 4096, 0)
    except ProcessLookupError:
        return _SLEEPING, b""
    return text.partition(b"\nState:\t")[2][:1], text.partition(b"\nvoluntary_ctxt_switches:")[2]


def _sleeps(file: int) -> bool:
    try:
        # "123 (name) S ...": the name may hold anything, the state follows the last bracket.
        return os.pread(file, 96, 0).rpartition(b")")[2][1:2] == _SLEEPING
    except ProcessLookupError:
        return True


def _name_file(thread: int) -> Path:
    return _TASKS / str(thread) / "comm"


def _name(thread: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return _name_file(thread).read_text().rstrip("\n")
    return ""
