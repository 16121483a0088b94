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

T = TypeVar("T")


class Lane:
    """Runs one job at a time on its thread; a job that outlasts its deadline loses the lane for good."""

    def __init__(self, name: str) -> None:
        self.lost = False
        self._waiting = False
        self._jobs: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        # A daemon: a library that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=_serve, args=(self._jobs, self._answers), name=name, daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], T], deadline_s: float, doing: str) -> T:
        """The job's result, or its exception; EncoderTimeout when it takes longer than `deadline_s`."""
        if self.lost:
            raise EncoderTimeout(f"cannot {doing}: an earlier call never came back; close this session, open another")
        if self._waiting:  # the caller of the last job was interrupted; its answer concerns nobody now
            self._take(deadline_s, doing)
        self._jobs.put(job)
        self._waiting = True
        value, error = self._take(deadline_s, doing)
        if error is not None:
            raise error
        result: T = value
        return result

    def close(self) -> None:
        """End the thread, unless it is lost inside the library."""
        self._jobs.put(None)
        if not self.lost:
            self._thread.join()

    def _take(self, deadline_s: float, doing: str) -> tuple[Any, BaseException | None]:
        try:
            answer = self._answers.get(timeout=deadline_s)
        except Empty:
            self.lost = True
            raise EncoderTimeout(
                f"the encoder did not {doing} within {deadline_s:g} s; the session is lost: "
                "raise deadline_s, or use a WorkerSession, whose process can be killed"
            ) from None
        self._waiting = False
        return answer


def _serve(jobs: SimpleQueue[Any], answers: SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not None:
        try:
            answers.put((job(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the job was given
            answers.put((None, error))
        del job
