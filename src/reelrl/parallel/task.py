"""A task as a worker of any kind does it: unpacked, done before its deadline, its record or error packed again."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reelrl.errors import ReelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_SIGNAL = signal.SIGALRM


def done(unpack: Callable[[], tuple[Callable[[Any], Any], Any]], deadline_s: float | None) -> bytes:
    """What became of the task, for `answer_of`."""
    try:
        with _deadline(deadline_s):
            function, task = unpack()
            record = function(task)
        return pickle.dumps((record, None, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  whoever asked raises it
        return pickle.dumps((None, _plain(error), traceback.format_exc()), pickle.HIGHEST_PROTOCOL)


def leave_other_cores_alone() -> None:
    """To be called before a worker's first task: OpenCV would start a thread per core, which spin while they wait."""
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")


def close_at_end(close: Callable[[], None]) -> None:
    """Have this called when the worker that this process is ends in good order; twice is once."""
    _at_end[close] = None


def close_what_is_left() -> None:
    """The worker ends: close what its tasks have left open for the next ones."""
    while _at_end:
        _at_end.popitem()[0]()


_at_end: dict[Callable[[], None], None] = {}


def answer_of(message: bytes) -> tuple[Any, BaseException | None]:
    """The record, or the error with the traceback of where it happened."""
    record, error, trace = pickle.loads(message)
    if error is not None:
        error.__cause__ = _InWorker(trace)
    return record, error


class _InWorker(Exception):
    """The traceback in the worker, shown above that of the parent."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """The kernel ends this process when the time is over, also where it hangs in an encoder and no Python runs."""
    if seconds is None:
        yield
        return
    signal.signal(DEADLINE_SIGNAL, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _plain(error: Exception) -> Exception:
    """The error, or one with its words where it cannot travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  whatever an error's own pickling raises
        kind = ReelError if isinstance(error, ReelError) else RuntimeError
        return kind(str(error) if kind is ReelError else f"{type(error).__name__}: {error}")
    return error
