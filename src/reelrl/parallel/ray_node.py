"""What runs on a node of a Ray cluster: one task at a time, in a worker process of Ray's."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.file_trust import trusting_files
from reelrl.parallel.machine_facts import machine_facts
from reelrl.parallel.parcels import FileWanted, SentFile, unpacked
from reelrl.parallel.place import WorkPlace, working_at
from reelrl.parallel.task import close_what_is_left, done, leave_other_cores_alone
from reelrl.storage import cache
from reelrl.storage.files import cache_dir, write_atomic
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


_NAME = "cache-name"


@dataclass(frozen=True)
class Orders:
    """What all tasks of an executor have in common.

    cache     folder of the driver's cache
    cache_id  its name, by which a node knows whether its own is the same
    home      actor that looks after the driver's cache, for nodes that do not share it
    """

    trust: bool
    deadline_s: float | None
    cache: str
    cache_id: str
    home: Any


def do_task(
    body: bytes, arrays: Sequence[NDArray[np.uint8]] | None, files: dict[str, SentFile], orders: Orders
) -> bytes | str:
    """The answer of a task, for `task.answer_of`; or the path of a file that has to be sent first."""
    import ray

    leave_other_cores_alone()
    with ExitStack() as stack:
        stack.enter_context(working_at(WorkPlace()))
        stack.enter_context(trusting_files(orders.trust))
        stack.enter_context(cache.second_home(_home_of_results(orders)))
        try:
            function_and_task = unpacked(body, arrays, files, ray.get)
        except FileWanted as wanted:
            return str(wanted)
        except Exception as error:  # noqa: BLE001  whoever asked raises it
            return done(_raising(error), None)
        return done(lambda: function_and_task, orders.deadline_s)


class TaskActor:
    """Does tasks that belong together, one after the other, in a process of its own."""

    def do(self, *task: Any) -> bytes | str:
        return do_task(*task)

    def close(self) -> None:
        close_what_is_left()


def facts_of_node(_: object = None) -> dict[str, str]:
    return machine_facts()


class CacheKeeper:
    """Looks after the driver's cache where the driver is, for nodes that have another one."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def load(self, name: str) -> bytes | None:
        return cache.load(self.folder / name)

    def store(self, name: str, data: bytes) -> None:
        cache.store(self.folder / name, data)


class _ResultsAtHome:
    """The driver's cache, as a node reaches it."""

    def __init__(self, keeper: Any) -> None:
        self.keeper = keeper

    def load(self, name: str) -> bytes | None:
        import ray

        body: bytes | None = ray.get(self.keeper.load.remote(name))
        return body

    def store(self, name: str, data: bytes) -> None:
        import ray

        # Waited for: a record that has come home has its results there too.
        ray.get(self.keeper.store.remote(name, data))


def _home_of_results(orders: Orders) -> _ResultsAtHome | None:
    """None where this node's cache is the driver's. A node without a choice of its own takes the driver's if it can."""
    if "REELRL_CACHE" not in os.environ and _name_of(Path(orders.cache)) == orders.cache_id:
        os.environ["REELRL_CACHE"] = orders.cache
    return None if _name_of(cache_dir()) == orders.cache_id else _ResultsAtHome(orders.home)


def named_cache(folder: Path) -> str:
    """The name of a cache, which it is given when it is first asked."""
    name = _name_of(folder)
    if not name:
        write_atomic(own_path(folder / _NAME), secrets.token_hex(16))
    return name or _name_of(folder)


def _name_of(folder: Path) -> str:
    try:
        return read_regular(folder / _NAME).decode()
    except (OSError, ValueError):
        return ""


def _raising(error: Exception) -> Any:
    def unpack() -> Any:
        raise error

    return unpack
