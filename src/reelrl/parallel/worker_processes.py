"""Worker processes of this machine: spawned when there are tasks for them, ended with their parent."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from reelrl.errors import WorkerError
from reelrl.file_trust import files_are_trusted, trusting_files
from reelrl.parallel.executor import Executor, TaskOutcome, WaitingPlaces, WorkerNumbers
from reelrl.parallel.place import WorkPlace, working_at
from reelrl.parallel.task import DEADLINE_SIGNAL, answer_of, close_what_is_left, done, leave_other_cores_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from multiprocessing.connection import Connection

    from reelrl.parallel.executor import Near

GRACE_S = 2.0
"""So long a worker may take to close what its task has open, before it is killed."""


class Workers(Executor):
    """Processes that are started when there are tasks for them, and stay for the next ones."""

    def __init__(self, jobs: int, restarts: int = 0, deadline_s: float | None = None) -> None:
        self.jobs, self.restarts, self.deadline_s = jobs, restarts, deadline_s
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, int] = {}
        self._numbers = WorkerNumbers()

    def outcomes(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], near: Near | None = None
    ) -> Generator[TaskOutcome, None, None]:
        if self._busy:
            raise RuntimeError("this executor is in the middle of other tasks; finish those, or use a second one")
        waiting, lost, failed = WaitingPlaces(tasks), Counter[int](), False
        try:
            while self._busy or (waiting and not failed and not self.stopping):
                while waiting and len(self._busy) < self.jobs and not failed and not self.stopping:
                    if near is None:
                        worker, place = self._anybody(waiting), waiting.popleft()
                    elif (chosen := self._the_same_as_before(waiting, tasks, near)) is not None:
                        worker, place = chosen
                    else:
                        break
                    self._busy[worker] = place
                    error = worker.begin(function, tasks[self._busy[worker]])
                    if error is not None:  # it was not begun
                        failed = True
                        index = self._busy.pop(worker)
                        self._idle.append(worker)
                        yield TaskOutcome(index, None, error)
                for worker in self._ready():
                    record, error = worker.answer()
                    index = self._busy.pop(worker)
                    if isinstance(error, WorkerError) and lost[index] < self.restarts:
                        lost[index] += 1
                        waiting.appendleft(index)
                        continue
                    failed = failed or error is not None
                    if not isinstance(error, WorkerError):
                        self._idle.append(worker)
                    yield TaskOutcome(index, record, error)
        finally:
            if self._busy:  # the loop was left: nobody wants these records
                self.close()

    def _anybody(self, waiting: WaitingPlaces) -> _Worker:
        # All are started before the first task is sent: a long message waits until its worker reads.
        while len(self._idle) < min(self.jobs - len(self._busy), len(waiting)):
            self._idle.append(self._start(min(set(range(self.jobs)) - self._at_work(self._idle))))
        return self._idle.pop()

    def _the_same_as_before(
        self, waiting: WaitingPlaces, tasks: Sequence[Any], near: Near
    ) -> tuple[_Worker, int] | None:
        """The first task whose own worker is free, with that worker."""

        def number(place: int) -> int:
            return self._numbers.number(near(tasks[place]), self.jobs)

        busy = self._at_work()
        place = waiting.first(lambda place: number(place) not in busy)
        if place is None:
            return None
        worker = next((worker for worker in self._idle if worker.number == number(place)), None)
        if worker is None:
            return self._start(number(place)), place
        self._idle.remove(worker)
        return worker, place

    def _at_work(self, others: Sequence[_Worker] = ()) -> set[int]:
        return {worker.number for worker in (*self._busy, *others)}

    def _start(self, number: int) -> _Worker:
        return _Worker(self.deadline_s, number)

    def _ready(self) -> list[_Worker]:
        ready = wait([worker.connection for worker in self._busy])
        return [worker for worker in self._busy if worker.connection in ready]

    def close(self) -> None:
        idle, busy = self._idle, list(self._busy)
        self._idle, self._busy = [], {}
        try:
            for worker in idle:
                worker.connection.close()  # it leaves when it finds nobody there
            end_s = time.monotonic() + GRACE_S
            while time.monotonic() < end_s and any(worker.process.is_alive() for worker in idle + busy):
                # Again and again: Python may miss a signal that comes just before it goes to sleep. One is acted upon.
                for worker in busy:
                    worker.process.terminate()
                wait([worker.process.sentinel for worker in idle + busy if worker.process.is_alive()], timeout=0.1)
        finally:
            for worker in idle + busy:
                worker.process.kill()
                worker.process.join()
                worker.connection.close()


class _Worker:
    """A process that does one task at a time, and the line to it."""

    def __init__(self, deadline_s: float | None, number: int) -> None:
        self.deadline_s, self.number = deadline_s, number
        # Spawned, not forked: numba, torch and the encoders keep threads that a fork would tear.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, files_are_trusted(), deadline_s))
        # The terminal sends Ctrl+C to everybody; the parent alone decides what it means. Workers are born deaf to it.
        before = _block_ctrl_c()
        try:
            self.process.start()
        finally:
            theirs.close()
            if before is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def begin(self, function: Callable[[Any], Any], task: Any) -> BaseException | None:
        try:
            message = pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001  whatever a task's own pickling raises
            return error
        with suppress(OSError):  # it has died; `answer` says so
            self.connection.send_bytes(message)
        return None

    def answer(self) -> tuple[Any, BaseException | None]:
        try:
            return answer_of(self.connection.recv_bytes())
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            return None, self._lost()

    def _lost(self) -> WorkerError:
        status = self.process.exitcode
        if self.deadline_s is not None and status == -DEADLINE_SIGNAL:
            return WorkerError(
                f"a task was not done after its deadline of {self.deadline_s:g} s and its worker process was ended; "
                "see what it waits for, or give it longer: --deadline"
            )
        return WorkerError(
            f"a worker process ended in the middle of a task (exit status {status}): "
            "somebody or the system killed it; if memory was short, use fewer --workers"
        )


def _serve(connection: Connection, trust: bool, deadline_s: float | None) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGTERM, _leave)
    _end_with_parent()
    leave_other_cores_alone()
    # What a task of ours spreads further is done here: its parent has a worker for every core already.
    with working_at(WorkPlace()), trusting_files(trust), suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            message = connection.recv_bytes()
            connection.send_bytes(done(partial(pickle.loads, message), deadline_s))
    close_what_is_left()


def _leave(*_: object) -> None:
    # The parent tells its workers again until they are gone: a second time must not break off the closing.
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise KeyboardInterrupt  # closes what the task has open


def _block_ctrl_c() -> set[signal.Signals] | None:
    if not hasattr(signal, "pthread_sigmask"):
        return None
    resource_tracker.ensure_running()  # started with the first process, it would let the signal through again
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # type: ignore[return-value]


def _end_with_parent() -> None:
    """A parent that was killed cannot send its workers home; one in the middle of a task would go on for hours."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_after, args=(parent.sentinel,), daemon=True).start()


def _leave_after(sentinel: int) -> None:
    if hasattr(signal, "pthread_sigmask"):
        # A signal that this thread takes would not wake the main one, which alone acts on it.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    wait([sentinel])
    os._exit(1)
