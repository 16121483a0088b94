"""One executor of plain tasks and records: in this process, in worker processes, on a Ray cluster, or in threads.

    with executor(jobs) as work:                            # 1: this process; N: worker processes; 0: one per core
        for record in work.map(encode_point, tasks): ...                    # in the order of the tasks
        for task, record in work.as_completed(encode_point, tasks): ...     # each as soon as it is there
        for record in work.map(encode_point, tasks): tasks.append(...)      # a list may grow on the way
        for record in work.map(play, tasks, near=match_of): ...             # tasks of a match go to one worker

The function stands at the top of a module; tasks and records are plain data that can be pickled. The same tasks give
the same records with any number of jobs. An error is that of its task and carries a note that names it. On an error,
Ctrl+C, SIGTERM or when the loop is left, what has not begun is dropped and workers are ended. They end with their
parent, however that ends.

A kind of executor says how the outcomes of tasks are come by (`outcomes`); everything else is shared.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from reelrl.errors import ConfigError, shown
from reelrl.parallel.place import work_place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
    from concurrent.futures import Future

    Near = Callable[[Any], Hashable]

T = TypeVar("T")
R = TypeVar("R")


def executor(jobs: int = 0, *, threads: bool = False, restarts: int = 0) -> Executor:
    """Who does the work: on a cluster where `working_at` names one, else on this machine.

    jobs      tasks at the same time; 0: one per core, of this machine or of the cluster; 1: in this process
    threads   for tasks that mostly wait for other programs, and for functions of an object; always on this machine
    restarts  how often a task whose worker process was killed is begun again, in another one
    """
    if jobs < 0:
        raise ConfigError(f"jobs = {jobs}; use 1 or more, or 0 for one per core")
    if threads:
        return Threads(jobs or cores())
    place = work_place()
    if place.ray and jobs != 1:
        from reelrl.parallel.ray_executor import RayCluster

        return RayCluster(place.ray, jobs, restarts, place.deadline_s)
    # A task with a deadline is done in a process that can be ended.
    if (jobs or cores()) == 1 and place.deadline_s is None:
        return InProcess()
    from reelrl.parallel.worker_processes import Workers

    return Workers(jobs or cores(), restarts, place.deadline_s)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TaskOutcome(NamedTuple):
    """What became of the task in this place of the list: a record, or an error."""

    place: int
    record: Any
    error: BaseException | None = None


class WaitingPlaces:
    """Places of the tasks that are still to be begun, in their order; the list may grow meanwhile."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._tasks, self._next = tasks, 0
        self._again: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._again) + len(self._tasks) - self._next

    def popleft(self) -> int:
        place = self.first(lambda _: True)
        if place is None:
            raise IndexError("no task is waiting")
        return place

    def first(self, suits: Callable[[int], bool]) -> int | None:
        """The first place that suits, which waits no longer; None where none does."""
        for place in self._again:
            if suits(place):
                self._again.remove(place)
                return place
        while self._next < len(self._tasks):
            self._next += 1
            if suits(self._next - 1):
                return self._next - 1
            self._again.append(self._next - 1)
        return None

    def appendleft(self, place: int) -> None:
        """Begin this one again, before the others."""
        self._again.appendleft(place)


class WorkerNumbers:
    """Which of some workers does the tasks of a kind: kinds are dealt out in the order in which they are first seen."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}

    def number(self, kind: Hashable, workers: int) -> int:
        return self._seen.setdefault(kind, len(self._seen)) % workers


class Executor(ABC):
    """Does tasks; a context manager whose end leaves nothing at work."""

    stopping = False

    @abstractmethod
    def outcomes(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], near: Near | None = None
    ) -> Generator[TaskOutcome, None, None]:
        """Of every task, as they come. Tasks are begun in their order, and none after an error or `stop`.

        What is appended to `tasks` while outcomes are read is done too. Tasks for which `near` gives the same go to the
        same worker while it lives, now and in later calls: it may have something left of the last one that saves time.
        """

    def stop(self) -> None:
        """Begin no more tasks; those under way are finished, and their records come. A signal handler may call it."""
        self.stopping = True

    def close(self) -> None:  # noqa: B027 (there may be nothing to close)
        """End what is at work."""

    def map(
        self,
        function: Callable[[T], R],
        tasks: Iterable[T],
        *,
        name: Callable[[T], str] = shown,
        near: Callable[[T], Hashable] | None = None,
    ) -> Generator[R, None, None]:
        """The records in the order of the tasks; an error comes in its turn, so that it is the same for all jobs.

        `name` says in errors which task it was; `near` is that of `outcomes`.
        """
        listed = tasks if isinstance(tasks, list) else list(tasks)
        early: dict[int, TaskOutcome] = {}
        due = 0
        with closing(self.outcomes(function, listed, near)) as outcomes:
            for outcome in outcomes:
                early[outcome.place] = outcome
                while due in early:
                    yield _record(early.pop(due), listed[due], name)
                    due += 1

    def as_completed(
        self, function: Callable[[T], R], tasks: Iterable[T], *, name: Callable[[T], str] = shown
    ) -> Generator[tuple[T, R], None, None]:
        """Each task with its record, as they come; the first error is raised at once."""
        listed = tasks if isinstance(tasks, list) else list(tasks)
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

    def outcomes(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        near: Near | None = None,  # noqa: ARG002 (there is one worker, or they share their memory)
    ) -> Generator[TaskOutcome, None, None]:
        for index, task in enumerate(tasks):
            if self.stopping:
                return
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

    def outcomes(
        self,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        near: Near | None = None,  # noqa: ARG002 (there is one worker, or they share their memory)
    ) -> Generator[TaskOutcome, None, None]:
        waiting = WaitingPlaces(tasks)
        places: dict[Future[Any], int] = {}
        try:
            while waiting or places:
                while waiting:
                    place = waiting.popleft()
                    places[self._pool.submit(self._unless_stopped, function, tasks[place])] = place
                for future in wait(places, return_when=FIRST_COMPLETED).done:
                    error, place = future.exception(), places.pop(future)
                    if not isinstance(error, CancelledError):
                        yield TaskOutcome(place, None if error else future.result(), error)
        finally:
            for future in places:
                future.cancel()

    def _unless_stopped(self, function: Callable[[Any], Any], task: Any) -> Any:
        if self.stopping:
            raise CancelledError
        return function(task)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
