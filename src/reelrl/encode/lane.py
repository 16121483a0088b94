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
        self._unanswered = 0
        self._jobs: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        # A daemon: a library that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=_serve, args=(self._jobs, self._answers), name=name, daemon=True)
        self._thread.start()

    def call(self, job: Callable[[], T], deadline_s: float, doing: str) -> T:
        """The job's result, or its exception; EncoderTimeout when it takes longer than `deadline_s`."""
        self._settle(deadline_s, doing)
        self._jobs.put(job)
        self._unanswered = 1
        return self._answer(deadline_s, doing)

    def close(self) -> None:
        """End the thread, unless it is lost inside the library."""
        self._jobs.put(None)
        if not self.lost:
            self._thread.join()

    def _settle(self, deadline_s: float, doing: str) -> None:
        """Take in the answer of a job whose caller was interrupted while it waited."""
        if self.lost:
            raise EncoderTimeout(f"cannot {doing}: an earlier call never came back; close this session, open another")
        if self._unanswered:
            try:
                self._answer(deadline_s, doing)
            except EncoderTimeout:
                raise
            except Exception:  # noqa: BLE001, S110 - it belonged to the call that was interrupted
                pass

    def _answer(self, deadline_s: float, doing: str) -> Any:
        try:
            value, error = self._answers.get(timeout=deadline_s)
        except Empty:
            self.lost = True
            raise EncoderTimeout(
                f"the encoder did not {doing} within {deadline_s:g} s; the session is lost: "
                "raise deadline_s, or use a worker process (process=True), which can be killed"
            ) from None
        self._unanswered = 0
        if error is not None:
            raise error
        return value


def _serve(jobs: SimpleQueue[Any], answers: SimpleQueue[Any]) -> None:
    while (job := jobs.get()) is not None:
        try:
            answers.put((job(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the job was given
            answers.put((None, error))
        del job
