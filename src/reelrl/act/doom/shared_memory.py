"""What matches and their players share: engines' ids, rows of facts, rows of sightings, and pictures.

    ids, numbers (matches, players)   |   facts, then sightings (matches, players, numbers as float64)
    pictures (slots, matches, players, 3, height, width)

Ids and numbers are by process, everything else by the number that the engine gives a player: joiners race for it. A
player writes its picture into the slot that its order names, so a trainer has the pictures of many steps side by side
without a copy. One match alone has one slot: its newest picture.

The memory has no name in the file system, only descriptors, so it is gone with the last process that holds one, however
that process ends.

A fact is a number about a player, in the order of `FACTS`. A sighting is a row of numbers about an enemy or a mate:
what it is, the engine's id of it, and where it stands. The engine knows whether a thing has at least one pixel on the
screen, so nobody is "seen" through a wall. Ids differ between the engines of one match, except over time within one;
across engines a thing is known by where it stands.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import vizdoom
    from numpy.typing import NDArray

# ViZDoom's game variables of the same name.
GAME_VARIABLES = (
    "HEALTH",
    "ARMOR",
    "SELECTED_WEAPON_AMMO",
    "KILLCOUNT",
    "DEATHCOUNT",
    "FRAGCOUNT",
    "HITCOUNT",
    "DAMAGE_TAKEN",
    "POSITION_X",
    "POSITION_Y",
    "POSITION_Z",
    "ANGLE",
    "DEAD",
    "PLAYER_NUMBER",
)
FACTS = (*GAME_VARIABLES, "EPISODE_TIME", "TOTAL_REWARD")  # in tics; what the scenario's own script has given so far
COLUMN = {name: index for index, name in enumerate(FACTS)}

# Kinds of sightings; 0 is an empty row. All enemies, dead or alive, and bystanders are in one player's rows alone: each
# engine knows them.
ENEMY, DEAD_ENEMY, ENEMY_ON_SCREEN, MATE_ON_SCREEN, BYSTANDER, BYSTANDER_ON_SCREEN = 1, 2, 3, 4, 5, 6
SIGHTING_COLUMNS = ("kind", "id", "x", "y", "z")
MOST_SIGHTINGS = 512

_ID_BYTES = 64
_KINDS = {"Monster": ENEMY_ON_SCREEN, "Player": MATE_ON_SCREEN}  # by the engine's own word
_SPARED = "Bystander"  # an actor of that name is no enemy


class MatchMemory:
    """One piece of memory for `matches` matches of so many `players`; the file's top says what its arrays hold."""

    def __init__(
        self,
        players: int,
        height: int,
        width: int,
        descriptor: int | None = None,
        *,
        sightings: bool = False,
        matches: int = 1,
        slots: int = 1,
    ) -> None:
        """New memory, or that of another process by its `descriptor`."""
        rows = MOST_SIGHTINGS if sightings else 0
        columns = len(FACTS) + rows * len(SIGHTING_COLUMNS)  # of each player, as float64
        everybody = matches * players
        ahead = everybody * (_ID_BYTES + 8 + 8 * columns)
        size = ahead + slots * everybody * 3 * height * width
        self.descriptor = os.memfd_create("reelrl-doom") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, size)
        memory = mmap.mmap(self.descriptor, size)
        self.slots = slots
        self._ids = np.frombuffer(memory, f"S{_ID_BYTES}", everybody).reshape(matches, players)
        numbers = np.frombuffer(memory, np.int64, everybody, everybody * _ID_BYTES)
        self.numbers = numbers.reshape(matches, players)
        table = np.frombuffer(memory, np.float64, everybody * columns, everybody * (_ID_BYTES + 8))
        table = table.reshape(matches, players, columns)
        self.facts = table[..., : len(FACTS)]
        self.sightings = table[..., len(FACTS) :].reshape(matches, players, rows, len(SIGHTING_COLUMNS), copy=False)
        self.pictures = np.frombuffer(memory, np.uint8, offset=ahead).reshape(slots, matches, players, 3, height, width)

    def set_engine_id(self, match: int, process: int, identity: str) -> None:
        self._ids[match, process] = identity.encode()

    def engine_id(self, match: int, process: int) -> str:
        """What names the files of the player's engine in /dev/shm; empty before it started."""
        return bytes(self._ids[match, process]).decode()

    def close(self) -> None:
        """Give up the descriptor; the memory stays while arrays of it are in use."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SightingsWriter:
    """Writes what one engine knows into rows (MOST_SIGHTINGS, columns): who is on the screen, and where all enemies
    are, if this is the player whose rows have them.
    """

    def __init__(self, *, all_enemies: bool) -> None:
        self._all_enemies = all_enemies
        self._names: dict[int, str] = {}  # of enemies by id, while alive: the dead are named like any other gore

    def prepare(self, game: vizdoom.DoomGame) -> None:
        """Turn on what is needed, before the game starts."""
        game.set_labels_buffer_enabled(True)
        game.set_objects_info_enabled(self._all_enemies)
        game.set_render_weapon(False)

    def publish(self, state: vizdoom.GameState, rows_of_memory: NDArray[np.float64]) -> None:
        """Replace the rows by what is there now."""
        rows = [
            (kind, label.object_id, label.object_position_x, label.object_position_y, label.object_position_z)
            for label in state.labels or ()
            if (kind := BYSTANDER_ON_SCREEN if label.object_name == _SPARED else _KINDS.get(label.object_category))
        ]
        self._names |= {thing.id: thing.name for thing in state.objects or () if thing.category == "Monster"}
        enemies = [thing for thing in state.objects or () if thing.id in self._names]
        # By name, so that one that looks different from the others has the same place in the list in every match.
        for enemy in sorted(enemies, key=lambda enemy: (self._names[enemy.id], enemy.id)):
            kind = ENEMY if enemy.category == "Monster" else DEAD_ENEMY
            if self._names[enemy.id] == _SPARED:
                if kind == DEAD_ENEMY:
                    continue
                kind = BYSTANDER
            rows.append((kind, enemy.id, enemy.position_x, enemy.position_y, enemy.position_z))
        if len(rows) > MOST_SIGHTINGS:
            raise ValueError(
                f"{len(rows)} enemies and players are there, {MOST_SIGHTINGS} can be recorded; use a smaller map"
            )
        rows_of_memory[: len(rows)] = rows or 0
        rows_of_memory[len(rows) :] = 0
