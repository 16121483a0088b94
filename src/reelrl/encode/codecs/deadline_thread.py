"""A private thread for one encoder.

Encoder libraries block in C with no time-out. Calling them on a thread of their own lets the caller give up at
a deadline, lets Ctrl+C through while they work, and keeps what the library does to the calling thread's
scheduling away from the user's.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from reelrl.errors import EncoderTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    _Box = SimpleQueue[tuple[Any, BaseException | None]]

T = TypeVar("T")


class DeadlineThread:
    """Runs one job at a time on its thread; a job that outlasts its deadline loses the thread for good."""

    def __init__(self, name: str) -> None:
        self.lost = False
        self._jobs: SimpleQueue[tuple[Callable[[], Any], _Box] | None] = SimpleQueue()
        # A daemon: a library that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], T], deadline_s: float, doing: str) -> T:
        """The job's result, or its exception; EncoderTimeout when it takes longer than `deadline_s`."""
        if self.lost:
            raise EncoderTimeout(f"cannot {doing}: an earlier call never came back; close this session, open another")
        # A box for each answer: that of a job whose caller was interrupted concerns nobody.
        box: _Box = SimpleQueue()
        self._jobs.put((job, box))
        try:
            value, error = box.get(timeout=deadline_s)
        except Empty:
            self.lost = True
            raise EncoderTimeout(
                f"the encoder did not {doing} within {deadline_s:g} s; the session is lost: "
                "raise deadline_s, or use a WorkerSession, whose process can be killed"
            ) from None
        if error is not None:
            raise error
        result: T = value
        return result

    def close(self) -> None:
        """End the thread, unless it is lost inside the library."""
        self._jobs.put(None)
        if not self.lost:
            self._thread.join()


def _serve(jobs: SimpleQueue[Any]) -> None:
    while (given := jobs.get()) is not None:
        job, box = given
        try:
            box.put((job(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the job was given
            box.put((None, error))
        del given, job, box
