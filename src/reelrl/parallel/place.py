"""Where the executors of a command do their tasks. No stage knows: the command line says it once, for all of them."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_place: WorkPlace | None = None


@dataclass(frozen=True)
class WorkPlace:
    """Where tasks are done.

    ray         a Ray cluster: "auto" (the one that runs on this machine), HOST:PORT, ray://HOST:PORT, or "local" (one
                of this machine's own, for as long as the command runs); empty: this machine without Ray
    deadline_s  a task that takes longer in a worker is ended with it; None waits for ever
    """

    ray: str = ""
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise ConfigError(f"deadline = {self.deadline_s:g} s; use more than 0")


def work_place() -> WorkPlace:
    """As `working_at` says, else REELRL_RAY."""
    return WorkPlace(os.environ.get("REELRL_RAY", "")) if _place is None else _place


@contextmanager
def working_at(place: WorkPlace) -> Iterator[None]:
    """Executors that are made inside do their tasks there; what connects to a cluster is closed afterwards."""
    global _place
    if place.ray:
        from reelrl.parallel.ray_connection import stay_on_loopback

        stay_on_loopback(place.ray)
    before, _place = _place, place
    try:
        yield
    finally:
        _place = before
        connection = sys.modules.get("reelrl.parallel.ray_connection")
        if before is None and connection is not None:
            connection.disconnect()
