"""Memory that a match and its players share: per player the engine's id, a row of facts and the newest picture.

It has no name in the file system, only descriptors, so it is gone with the last process that holds one, however that
process ends.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

from reelrl.act.game_facts import FACTS

_ID_BYTES = 64


class SharedPictures:
    """`engine_ids`, `facts` (players, facts) and `pictures` (players, 3, height, width) in one piece of memory."""

    def __init__(self, players: int, height: int, width: int, descriptor: int | None = None) -> None:
        """New memory, or that of another process by its `descriptor`."""
        fact_bytes = 8 * len(FACTS)
        size = players * (_ID_BYTES + fact_bytes + 3 * height * width)
        self.descriptor = os.memfd_create("reelrl-doom") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, size)
        memory = mmap.mmap(self.descriptor, size)
        self._ids = np.frombuffer(memory, f"S{_ID_BYTES}", players)
        self.facts = np.frombuffer(memory, np.float64, players * len(FACTS), players * _ID_BYTES)
        self.facts = self.facts.reshape(players, len(FACTS))
        self.pictures = np.frombuffer(memory, np.uint8, offset=players * (_ID_BYTES + fact_bytes))
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
