"""What is true at every moment of a match: one row per picture, the same for all players.

Match (facts, sightings)  ──► row_of ──► MatchRow, one moment ──► stacked ──► Labels, the whole match ──► labels.npz
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.act.doom.shared_memory import (
    COLUMN,
    DEAD_ENEMY,
    ENEMY,
    ENEMY_ON_SCREEN,
    MATE_ON_SCREEN,
    SIGHTING_COLUMNS,
)
from reelrl.errors import ContentError
from reelrl.storage.regular_files import RESULT_BYTES, read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Floats = NDArray[np.float64]

DAMAGED_ARCHIVE = (
    *(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error),
    RuntimeError,  # zipfile: encrypted; NotImplementedError, a kind of it: packed in an unknown way
)
"""What numpy lets through from a broken .npz file."""

_POSITION = [COLUMN[f"POSITION_{axis}"] for axis in "XYZ"]
# Engines of one match agree on enemies to the last bit. Another player is shown where it was a tic ago.
_SAME_ENEMY, _SAME_MATE = 1.0, 48.0


@dataclass(frozen=True, eq=False)
class MatchRow:
    """One moment. `enemies` are by the id that player 0's engine gives them: position, and whether alive."""

    tic: int
    position: Floats
    angle: Floats
    health: Floats
    alive: NDArray[np.bool_]
    kills: Floats
    enemies: dict[int, tuple[Floats, bool]]
    sees_mate: NDArray[np.bool_]
    sees_enemy: tuple[frozenset[int], ...]


@dataclass(frozen=True, eq=False)
class Labels:
    """A match of F rows, P players, and E enemies in the order in which they appeared, at first by their names.

    Positions are in map units, angles in degrees from east, counter-clockwise. The engine counts kills for the team.
    """

    tic: NDArray[np.int32]
    """[F], from the start of the level."""
    position: NDArray[np.float32]
    """[F, P, 3]"""
    angle: NDArray[np.float32]
    """[F, P]"""
    health: NDArray[np.float32]
    """[F, P]"""
    alive: NDArray[np.bool_]
    """[F, P]"""
    team: NDArray[np.int8]
    """[F, P]: 0 for all players, who are one team against the game's monsters."""
    kills: NDArray[np.int32]
    """[F, P]"""
    enemy_position: NDArray[np.float32]
    """[F, E, 3]; NaN while not there. The dead lie where they fell."""
    enemy_alive: NDArray[np.bool_]
    """[F, E]"""
    sees_mate: NDArray[np.bool_]
    """[F, P, P]: whether the second player has a pixel on the screen of the first."""
    sees_enemy: NDArray[np.bool_]
    """[F, P, E]"""

    def __len__(self) -> int:
        return len(self.tic)

    def to_bytes(self) -> bytes:
        """An .npz file, packed, without pickles."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, allow_pickle=False, **{each.name: getattr(self, each.name) for each in fields(self)}
        )
        return buffer.getvalue()

    @classmethod
    def unknown(cls, rows: int, players: int) -> Labels:
        """Of a match that nobody wrote labels for: one team, alive all the time, nobody anywhere, no enemies."""
        nowhere, nobody = np.full((rows, players), np.nan, np.float32), np.zeros((rows, players), np.int32)
        return cls(
            tic=np.arange(rows, dtype=np.int32),
            position=np.full((rows, players, 3), np.nan, np.float32),
            angle=nowhere,
            health=nowhere,
            alive=np.ones((rows, players), bool),
            team=nobody.astype(np.int8),
            kills=nobody,
            enemy_position=np.zeros((rows, 0, 3), np.float32),
            enemy_alive=np.zeros((rows, 0), bool),
            sees_mate=np.zeros((rows, players, players), bool),
            sees_enemy=np.zeros((rows, players, 0), bool),
        )

    @classmethod
    def read(cls, path: Path) -> Labels:
        try:
            with np.load(io.BytesIO(read_regular(path, RESULT_BYTES)), allow_pickle=False) as arrays:
                return cls(**{each.name: arrays[each.name] for each in fields(cls)})
        except DAMAGED_ARCHIVE as error:
            raise ContentError(f"{path} are no labels of a match ({error}); copy it again or collect anew") from error


def row_of(facts: Floats, sightings: Floats) -> MatchRow:
    """The moment that a match's (players, facts) and (players, rows, columns) tell of."""
    position = facts[:, _POSITION]
    rows = sightings.reshape(-1, len(SIGHTING_COLUMNS))
    enemies = {
        int(each[1]): (each[2:5].copy(), bool(each[0] == ENEMY))
        for each in rows[np.isin(rows[:, 0], (ENEMY, DEAD_ENEMY))]
    }
    sees_mate = np.zeros((len(facts), len(facts)), bool)
    for player, things in enumerate(sightings):
        for mate in things[things[:, 0] == MATE_ON_SCREEN]:
            distance = np.linalg.norm(position - mate[2:5], axis=1)
            distance[player] = np.inf
            if distance.min() <= _SAME_MATE:
                sees_mate[player, distance.argmin()] = True
    return MatchRow(
        tic=int(facts[0, COLUMN["EPISODE_TIME"]]),
        position=position,
        angle=facts[:, COLUMN["ANGLE"]],
        health=facts[:, COLUMN["HEALTH"]],
        alive=facts[:, COLUMN["DEAD"]] == 0,
        kills=facts[:, COLUMN["KILLCOUNT"]],
        enemies=enemies,
        sees_mate=sees_mate,
        sees_enemy=tuple(_seen_enemies(things, enemies) for things in sightings),
    )


def _seen_enemies(things: Floats, enemies: dict[int, tuple[Floats, bool]]) -> frozenset[int]:
    shown = things[things[:, 0] == ENEMY_ON_SCREEN][:, 2:5]
    if not (len(shown) and enemies):
        return frozenset()
    names = list(enemies)
    there = np.array([enemies[name][0] for name in names])
    distance = np.linalg.norm(shown[:, None] - there, axis=2)
    near = distance.min(axis=1) <= _SAME_ENEMY
    return frozenset(names[index] for index in distance.argmin(axis=1)[near])


def stacked(rows: Sequence[MatchRow]) -> Labels:
    """The labels of a match from its moments."""
    names: list[int] = list(dict.fromkeys(name for row in rows for name in row.enemies))
    count, players, enemies = len(rows), len(rows[0].alive), len(names)
    column = {name: index for index, name in enumerate(names)}
    enemy_position = np.full((count, enemies, 3), np.nan, np.float32)
    enemy_alive = np.zeros((count, enemies), bool)
    sees_enemy = np.zeros((count, players, enemies), bool)
    for index, row in enumerate(rows):
        for name, (position, alive) in row.enemies.items():
            enemy_position[index, column[name]] = position
            enemy_alive[index, column[name]] = alive
        for player, shown in enumerate(row.sees_enemy):
            sees_enemy[index, player, [column[name] for name in shown]] = True

    def each(name: str, kind: Any) -> Any:
        return np.array([getattr(row, name) for row in rows], kind)

    return Labels(
        tic=each("tic", np.int32),
        position=each("position", np.float32),
        angle=each("angle", np.float32),
        health=each("health", np.float32),
        alive=each("alive", bool),
        team=np.zeros((count, players), np.int8),
        kills=each("kills", np.int32),
        enemy_position=enemy_position,
        enemy_alive=enemy_alive,
        sees_mate=each("sees_mate", bool),
        sees_enemy=sees_enemy,
    )
