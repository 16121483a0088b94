"""The executor whose workers are those of a Ray cluster.

Ray schedules, moves objects and says who died; here is only what the other executors promise too: order, errors that
name their task, a bounded number of tasks under way, and nothing left at work. A task whose worker or node died is
begun again elsewhere: tasks can be repeated, their results are cached by content.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reelrl.errors import WorkerError
from reelrl.file_trust import files_are_trusted
from reelrl.parallel.executor import Executor, TaskOutcome, WaitingPlaces, WorkerNumbers
from reelrl.parallel.parcels import Parcel, Sender
from reelrl.parallel.ray_connection import NODE_LABEL, connect
from reelrl.parallel.ray_node import Orders, TaskActor, do_task
from reelrl.parallel.task import answer_of
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Sequence

    from reelrl.parallel.executor import Near

RESTARTS = 3
"""How often a task is begun again whose worker or node died; a poisonous one must come to an end."""
GRACE_S = 2.0
"""So long a cancelled task may take to close what it has open, before its worker is killed."""
CLOSE_S = 10.0
"""So long an actor without a task may take to close what its tasks have left in it."""
WAIT_S = 1.0


class RayCluster(Executor):
    """Tasks on the nodes of a cluster, one core each; `jobs` at the same time, 0: one per core of the cluster."""

    def __init__(self, address: str, jobs: int = 0, restarts: int = 0, deadline_s: float | None = None) -> None:
        self.jobs, self.restarts, self.deadline_s = jobs, max(restarts, RESTARTS), deadline_s
        self._connection = connect(address)
        self._orders = Orders(
            files_are_trusted(), deadline_s, str(cache_dir()), self._connection.cache_id, self._connection.keeper
        )
        self._numbers = WorkerNumbers()
        self._actors: dict[int, Any] = {}  # by number, for tasks that belong together

    def outcomes(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], near: Near | None = None
    ) -> Generator[TaskOutcome, None, None]:
        import ray

        sender = Sender(ray.put)
        waiting, lost, failed = WaitingPlaces(tasks), Counter[int](), False
        running: dict[Any, tuple[int, Parcel, Any]] = {}
        try:
            while running or (waiting and not failed and not self.stopping):
                while waiting and not failed and not self.stopping and len(running) < self._room():
                    place = waiting.popleft()
                    try:
                        parcel = sender.pack(function, tasks[place])
                    except ray.exceptions.ObjectStoreFullError as full:
                        waiting.appendleft(place)
                        if not running:
                            raise WorkerError(f"{_FULL}: {full}") from full
                        break  # tasks that end make room
                    except Exception as error:  # noqa: BLE001  whatever a task's own pickling raises
                        failed = True
                        yield TaskOutcome(place, None, error)
                        continue
                    actor = self._actor_of(near(tasks[place])) if near else None
                    running[self._begin(parcel, actor)] = place, parcel, actor
                self._end_actors_without_core()
                for answered in ray.wait(list(running), num_returns=1, timeout=WAIT_S)[0] if running else ():
                    place, parcel, actor = running.pop(answered)
                    sender.release(parcel)
                    try:
                        answer = ray.get(answered)
                    except ray.exceptions.RayError as gone:
                        self._forget(actor)
                        lost[place] += 1
                        if lost[place] <= self.restarts and not failed:
                            waiting.appendleft(place)
                        else:
                            failed = True
                            yield TaskOutcome(place, None, self._lost(gone, lost[place]))
                        continue
                    if isinstance(answer, str):
                        sender.send_file(answer)
                        waiting.appendleft(place)
                        continue
                    outcome = TaskOutcome(place, *answer_of(answer))
                    failed = failed or outcome.error is not None
                    yield outcome
        finally:
            if near is None:
                _cancel(list(running))
            elif running:  # an actor cannot be asked to end what it does
                self.close()

    def close(self) -> None:
        self._end(list(self._actors))

    def _cores(self) -> int:
        return sum(node.cpus for node in self._connection.nodes().values())

    def _room(self) -> int:
        """Tasks that may be under way: twice as many as cores, so that a core has its next task when it ends one."""
        return min(self.jobs, self._cores()) if self.jobs else 2 * self._cores()

    def _begin(self, parcel: Parcel, actor: Any) -> Any:
        import ray

        doing = actor.do if actor else ray.remote(do_task).options(**self._where(), max_retries=0, name="reelrl")
        return doing.remote(parcel.body, parcel.arrays, parcel.files, self._orders)

    def _where(self) -> dict[str, Any]:
        # Without blanks: Ray 2.60 takes one for a part of the id, and its process ends.
        nodes = ",".join(sorted(self._connection.nodes()))
        return {"num_cpus": 1, "label_selector": {NODE_LABEL: f"in({nodes})"}}

    # -- tasks that belong together ----------------------------------------------------------------------------------

    def _actor_of(self, kind: Hashable) -> Any:
        import ray

        number = self._numbers.number(kind, self._most_actors())
        if number not in self._actors:
            self._actors[number] = ray.remote(TaskActor).options(**self._where(), max_restarts=0).remote()
        return self._actors[number]

    def _most_actors(self) -> int:
        return min(self.jobs or self._cores(), self._cores())

    def _forget(self, actor: Any) -> None:
        self._actors = {number: each for number, each in self._actors.items() if each is not actor}

    def _end_actors_without_core(self) -> None:
        """One that waits for a core of a node that is lost would wait for ever; its tasks go to the others."""
        if self._actors:
            self._end([number for number in self._actors if number >= self._most_actors()])

    def _end(self, numbers: list[int]) -> None:
        """Let them close what their tasks have left, for some seconds: Ray kills the programs of a worker that ends."""
        import ray

        ending = [self._actors.pop(number) for number in numbers]
        with suppress(ray.exceptions.RayError):
            closed = [actor.close.remote() for actor in ending]
            ray.wait(closed, num_returns=len(closed), timeout=CLOSE_S) if closed else None
        for actor in ending:
            with suppress(ray.exceptions.RayError):
                ray.kill(actor)

    def _lost(self, gone: Exception, times: int) -> WorkerError:
        deadline = f" or passed its deadline of {self.deadline_s:g} s" if self.deadline_s else ""
        return WorkerError(
            f"a task was begun {times} times and each time its worker or node died{deadline} "
            f"({type(gone).__name__}); if memory was short, use fewer --workers, or give it longer: --deadline"
        )


_FULL = "Ray's object store is full and cannot spill to its disk; give it more: ray start --object-store-memory BYTES"


def _cancel(running: list[Any]) -> None:
    """Nobody wants these records: ask first, so that tasks close what they have open, then end their workers."""
    import ray

    if not running:
        return
    with suppress(ray.exceptions.RayError):
        for each in running:
            ray.cancel(each, force=False)
        _, deaf = ray.wait(running, num_returns=len(running), timeout=GRACE_S)
        for each in deaf:
            ray.cancel(each, force=True)
        if deaf:
            ray.wait(deaf, num_returns=len(deaf), timeout=GRACE_S)
