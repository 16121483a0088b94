"""Memory that a match and its players share: per player the engine's id, a row of facts and the newest picture.

A match that is recorded also has rows of sightings.

It has no name in the file system, only descriptors, so it is gone with the last process that holds one, however that
process ends.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

from reelrl.act.doom import sightings as seen
from reelrl.act.doom.game_facts import FACTS

_ID_BYTES = 64


class SharedPictures:
    """Engine ids, `facts` (players, facts), `sightings` (players, MOST or 0, columns) and `pictures` (players, 3,
    height, width) in one piece of memory.
    """

    def __init__(
        self, players: int, height: int, width: int, descriptor: int | None = None, *, sightings: bool = False
    ) -> None:
        """New memory, or that of another process by its `descriptor`."""
        rows = seen.MOST if sightings else 0
        numbers = len(FACTS) + rows * len(seen.COLUMNS)  # of each player, as float64
        size = players * (_ID_BYTES + 8 * numbers + 3 * height * width)
        self.descriptor = os.memfd_create("reelrl-doom") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, size)
        memory = mmap.mmap(self.descriptor, size)
        self._ids = np.frombuffer(memory, f"S{_ID_BYTES}", players)
        table = np.frombuffer(memory, np.float64, players * numbers, players * _ID_BYTES).reshape(players, numbers)
        self.facts = table[:, : len(FACTS)]
        self.sightings = table[:, len(FACTS) :].reshape(players, rows, len(seen.COLUMNS), copy=False)
        self.pictures = np.frombuffer(memory, np.uint8, offset=players * (_ID_BYTES + 8 * numbers))
        self.pictures = self.pictures.reshape(players, 3, height, width)

    def tell_engine(self, player: int, identity: str) -> None:
        self._ids[player] = identity.encode()

    def engine_id(self, player: int) -> str:
        """What names the files of the player's engine in /dev/shm; empty before it started."""
        return bytes(self._ids[player]).decode()

    def close(self) -> None:
        """Give up the descriptor; the memory stays while arrays of it are in use."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
