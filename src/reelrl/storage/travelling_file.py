"""A file that goes with a task to machines that do not have it.

Where a task is done on this machine or the file system is shared, `TravellingFile` is a path like any other. An
executor that sends tasks elsewhere packs it (`reelrl.parallel.parcels`): the node is given the bytes once and reads its
own copy.
"""

from __future__ import annotations

import os


class TravellingFile(str):
    """The path of a file that is read."""

    __slots__ = ()

    @property
    def state(self) -> tuple[int, int]:
        """(bytes, time of change in ns): a file of this path and state on another machine is the same one."""
        found = os.stat(self)  # noqa: PTH116 - a str
        return found.st_size, found.st_mtime_ns

    def is_here(self, state: tuple[int, int]) -> bool:
        try:
            return self.state == state
        except OSError:
            return False
