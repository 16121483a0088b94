"""A folder of matches as `reel collect doom` writes it, without an engine: four rooms, each with a colour of its own.

Players walk from room to room by dice, enemies too; a player sees its room's colour, and who is in the same room.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.recording.labels import Labels
from reelrl.act.recording.manifest import LABELS, FileFacts, Manifest, MapEntry, MatchEntry, RecordingSettings
from reelrl.act.recording.maps import MapPlan
from reelrl.content.pictures import save_png
from reelrl.content.write.lossless import LosslessWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PLAN = MapPlan(
    "four-rooms",
    np.array([[0, 0, 200, 0], [200, 0, 200, 200], [200, 200, 0, 200], [0, 200, 0, 0]], np.float64),
    ("south-west", "south-east", "north-west", "north-east"),
    np.array([[0, 0, 99, 99], [101, 0, 200, 99], [0, 101, 99, 200], [101, 101, 200, 200]], np.float64),
)
COLOURS = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200], [200, 200, 40]])
HEIGHT, WIDTH = 24, 32
STAY_ROWS = 10  # in a room, at least


def write_matches(folder: Path, matches: int = 8, *, rows: int = 80, players: int = 3, elsewhere: int = 0) -> Path:
    """Matches 3 and 5 of the first map are for validation and test; `elsewhere` are on a second map."""
    manifest = Manifest(RecordingSettings(players=players, seconds=rows * 4 / 35, video="lossless"))
    for name, count in (("four-rooms", matches), ("cellar", elsewhere)):
        if not count:
            continue
        plan = MapPlan(name, PLAN.walls, PLAN.places, PLAN.boxes)
        (folder / "maps").mkdir(parents=True, exist_ok=True)
        (folder / f"maps/{name}.json").write_text(plan.to_json())
        save_png(folder / f"maps/{name}.png", plan.draw())
        files = [f"maps/{name}.json", f"maps/{name}.png"]
        manifest.maps[name] = MapEntry(name, {file: FileFacts.of(folder / file) for file in files})
        for number in range(count):
            manifest.matches.append(_write_match(folder, manifest, name, number, rows, players))
    manifest.write(folder)
    return folder


def labels_of(seed: int, rows: int, players: int, enemies: int = 2) -> Labels:
    rng = np.random.default_rng(seed)
    rooms = np.stack([_walk(rng, rows) for _ in range(players + enemies)], axis=1)
    position = np.zeros((rows, players + enemies, 3), np.float32)
    position[..., 0] = 50 + 100 * (rooms % 2)
    position[..., 1] = 50 + 100 * (rooms // 2)
    together = rooms[:, :players, None] == rooms[:, None, :]
    return Labels(
        tic=np.arange(rows, dtype=np.int32) * 4,
        position=position[:, :players],
        angle=np.zeros((rows, players), np.float32),
        health=np.full((rows, players), 100, np.float32),
        alive=np.ones((rows, players), bool),
        team=np.zeros((rows, players), np.int8),
        kills=np.zeros((rows, players), np.int32),
        enemy_position=position[:, players:],
        enemy_alive=np.ones((rows, enemies), bool),
        sees_mate=together[..., :players] & ~np.eye(players, dtype=bool),
        sees_enemy=together[..., players:],
    )


def rooms_of(labels: Labels) -> NDArray[np.int64]:
    return PLAN.place_of(labels.position[..., 0], labels.position[..., 1])


def _walk(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    stays = rng.integers(STAY_ROWS, 3 * STAY_ROWS, rows)
    return np.repeat(rng.integers(4, size=rows), stays)[:rows]


def _write_match(folder: Path, manifest: Manifest, map_name: str, number: int, rows: int, players: int) -> MatchEntry:
    name = f"{map_name}-{number:04d}"
    labels = labels_of(number + 1000 * len(map_name), rows, players)
    path = folder / "matches" / name
    path.mkdir(parents=True)
    (path / LABELS).write_bytes(labels.to_bytes())
    rooms = rooms_of(labels)
    for player in range(players):
        with LosslessWriter(path / f"player_{player}.mkv", WIDTH, HEIGHT, Fraction(35, 4)) as writer:
            for row in range(rows):
                picture = np.broadcast_to(COLOURS[rooms[row, player]], (HEIGHT, WIDTH, 3)).astype(np.uint8)
                picture[: 2 * (1 + labels.sees_mate[row, player].sum()), :, :] //= 2
                writer.write(picture)
    files = {f"matches/{name}/{file.name}": FileFacts.of(file) for file in sorted(path.iterdir())}
    return MatchEntry(name, map_name, manifest.split_of(map_name, number), number, rows, files)
