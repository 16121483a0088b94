"""One executor of plain tasks and records: in this process, in worker processes, or in threads.

    with executor(jobs) as work:                            # 1: this process; N: worker processes; 0: one per core
        for record in work.map(encode_point, tasks): ...                    # in the order of the tasks
        for task, record in work.as_completed(encode_point, tasks): ...     # each as soon as it is there

The function stands at the top of a module; tasks and records are plain data that can be pickled. The same tasks give
the same records with any number of jobs. An error is that of its task and carries a note that names it. On an error,
Ctrl+C, SIGTERM or when the loop is left, what has not begun is dropped and workers are ended. They end with their
parent, however that ends.

A cluster is one more `Executor`: it says how the outcomes of tasks are come by, everything else is shared.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from reelrl.errors import ConfigError, ReelError, WorkerError, shown
from reelrl.file_trust import files_are_trusted, trusting_files

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")

GRACE_S = 2.0
"""So long a worker may take to close what its task has open, before it is killed."""


def executor(jobs: int = 0, *, threads: bool = False, restarts: int = 0) -> Executor:
    """Who does the work.

    threads   for tasks that mostly wait for other programs, and for functions of an object
    restarts  how often a task whose worker process was killed is begun again, in another one
    """
    if jobs < 0:
        raise ConfigError(f"jobs = {jobs}; use 1 or more, or 0 for one per core")
    jobs = jobs or cores()
    if threads:
        return Threads(jobs)
    return InProcess() if jobs == 1 else Workers(jobs, restarts)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TaskOutcome(NamedTuple):
    """What became of the task in this place of the list: a record, or an error."""

    place: int
    record: Any
    error: BaseException | None = None


class Executor(ABC):
    """Does tasks; a context manager whose end leaves nothing at work."""

    @abstractmethod
    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[TaskOutcome, None, None]:
        """Of every task, as they come. Tasks are begun in their order, and none after an error."""

    def close(self) -> None:  # noqa: B027 (there may be nothing to close)
        """End what is at work."""

    def map(self, function: Callable[[T], R], tasks: Iterable[T], *, name: Callable[[T], str] = shown) -> Iterator[R]:
        """The records in the order of the tasks; an error comes in its turn, so that it is the same for all jobs.

        `name` says in errors which task it was.
        """
        listed = list(tasks)
        early: dict[int, TaskOutcome] = {}
        due = 0
        with closing(self.outcomes(function, listed)) as outcomes:
            for outcome in outcomes:
                early[outcome.place] = outcome
                while due in early:
                    yield _record(early.pop(due), listed[due], name)
                    due += 1

    def as_completed(
        self, function: Callable[[T], R], tasks: Iterable[T], *, name: Callable[[T], str] = shown
    ) -> Iterator[tuple[T, R]]:
        """Each task with its record, as they come; the first error is raised at once."""
        listed = list(tasks)
        with closing(self.outcomes(function, listed)) as outcomes:
            for outcome in outcomes:
                task = listed[outcome.place]
                yield task, _record(outcome, task, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _record(outcome: TaskOutcome, task: Any, name: Callable[[Any], str]) -> Any:
    if outcome.error is not None:
        outcome.error.add_note(f"task: {name(task)}")
        raise outcome.error
    return outcome.record


class InProcess(Executor):
    """One task after another, here; none is begun before its record is asked for."""

    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[TaskOutcome, None, None]:
        for index, task in enumerate(tasks):
            try:
                outcome = TaskOutcome(index, function(task))
            except Exception as error:  # noqa: BLE001  `map` raises it in its turn
                outcome = TaskOutcome(index, None, error)
            yield outcome
            if outcome.error is not None:
                return


class Threads(Executor):
    """Threads of this process. They cannot be ended from outside: tasks under way are waited for."""

    def __init__(self, jobs: int) -> None:
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="task")

    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[TaskOutcome, None, None]:
        indices = {self._pool.submit(function, task): index for index, task in enumerate(tasks)}
        try:
            for future in as_completed(indices):
                error = future.exception()
                yield TaskOutcome(indices[future], None if error else future.result(), error)
        finally:
            for future in indices:
                future.cancel()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Workers(Executor):
    """Processes that are started when there are tasks for them, and stay for the next ones."""

    def __init__(self, jobs: int, restarts: int = 0) -> None:
        self.jobs, self.restarts = jobs, restarts
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, int] = {}

    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[TaskOutcome, None, None]:
        if self._busy:
            raise RuntimeError("this executor is in the middle of other tasks; finish those, or use a second one")
        waiting, restarts, failed = deque(range(len(tasks))), [self.restarts] * len(tasks), False
        try:
            while self._busy or (waiting and not failed):
                while waiting and len(self._busy) < self.jobs and not failed:
                    # All are started before the first task is sent: a long message waits until its worker reads.
                    while len(self._idle) < min(self.jobs - len(self._busy), len(waiting)):
                        self._idle.append(_Worker())
                    worker = self._idle.pop()
                    self._busy[worker] = waiting.popleft()
                    error = worker.begin(function, tasks[self._busy[worker]])
                    if error is not None:  # it was not begun
                        failed = True
                        index = self._busy.pop(worker)
                        self._idle.append(worker)
                        yield TaskOutcome(index, None, error)
                for worker in self._ready():
                    record, error = worker.answer()
                    index = self._busy.pop(worker)
                    if isinstance(error, WorkerError) and restarts[index]:
                        restarts[index] -= 1
                        waiting.appendleft(index)
                        continue
                    failed = failed or error is not None
                    if not isinstance(error, WorkerError):
                        self._idle.append(worker)
                    yield TaskOutcome(index, record, error)
        finally:
            if self._busy:  # the loop was left: nobody wants these records
                self.close()

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

    def __init__(self) -> None:
        # Spawned, not forked: numba, torch and the encoders keep threads that a fork would tear.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, files_are_trusted()))
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
            record, error, trace = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            return None, WorkerError(
                f"a worker process ended in the middle of a task (exit status {self.process.exitcode}): "
                "somebody or the system killed it; if memory was short, use fewer --jobs"
            )
        if error is not None:
            error.__cause__ = _InWorker(trace)
        return record, error


class _InWorker(Exception):
    """The traceback in the worker, shown above that of the parent."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _serve(connection: Connection, trust: bool) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGTERM, _leave)
    _end_with_parent()
    with trusting_files(trust), suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            message = connection.recv_bytes()
            connection.send_bytes(_done(message))


def _done(message: bytes) -> bytes:
    try:
        function, task = pickle.loads(message)
        return pickle.dumps((function(task), None, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  the parent raises it
        return pickle.dumps((None, _plain(error), traceback.format_exc()), pickle.HIGHEST_PROTOCOL)


def _plain(error: Exception) -> Exception:
    """The error, or one with its words where it cannot travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  whatever an error's own pickling raises
        kind = ReelError if isinstance(error, ReelError) else RuntimeError
        return kind(str(error) if kind is ReelError else f"{type(error).__name__}: {error}")
    return error


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
