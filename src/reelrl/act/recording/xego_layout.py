"""X-Ego's files on disk: which folders are maps, what belongs to a round, and what the tables hold.

<map>/video_306x306_4fps/<match>/<player>/round_07.mp4
<map>/trajectory/<match>/<player>/round_7.csv       tick, side, X, Y, Z, place, health, at 64 ticks a second
<map>/time_offset.json                              [match][player][round]["offset_sec"]: video before game time 0
<map>/match_round_partitioned.csv                   split, match_id, round_number; or else
<map>/labels/contrastive.csv                        partition, match_id, round_num
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast, get_args

import numpy as np

from reelrl.act.recording.manifest import Split
from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import DOCUMENT_BYTES, open_binary, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

SIDES = {"t": 0, "ct": 1}
_COLUMNS = ("tick", "side", "X", "Y", "Z", "place", "health")
Offsets = dict[str, dict[str, dict[str, float]]]
"""Of one match, by player and round."""


class XegoPlayer(NamedTuple):
    """Of one round: where its table and its video are, and how much earlier than the round the video begins."""

    table: Path
    video: Path
    offset_s: float


class Track(NamedTuple):
    """A player's table."""

    tick: NDArray[np.int64]
    position: NDArray[np.float32]
    place: NDArray[np.str_]
    health: NDArray[np.float32]
    side: int


def tables_of_rounds(folder: Path) -> Iterator[tuple[str, int, list[Path]]]:
    """Match, number and the players' tables of every round of a map."""
    for match in sorted(path for path in (folder / "trajectory").iterdir() if path.is_dir()):
        tables: dict[int, list[Path]] = defaultdict(list)
        for table in sorted(match.glob("*/round_*.csv")):
            tables[_round_number(table)].append(table)
        for number, tables_of_round in sorted(tables.items()):
            yield match.name, number, tables_of_round


def read_track(table: Path) -> Track:
    """A player's table of one round."""
    try:
        with _open_table(table) as file:
            lines = csv.reader(file)
            header = next(lines)
            columns = [header.index(name) for name in _COLUMNS]
            rows = [[line[column] for column in columns] for line in lines]
        tick, side, x, y, z, place, health = zip(*rows, strict=True)
        position = np.array([x, y, z], np.float32).T
        return Track(
            np.array(tick, np.int64), position, np.array(place, np.str_), np.array(health, np.float32),
            SIDES[side[0].strip().lower()],
        )  # fmt: skip
    except OSError as error:
        raise ContentError(explain_os_error(error, table, "read")) from error
    except (ValueError, IndexError, KeyError, StopIteration, csv.Error) as error:
        raise ContentError(
            f"{table} is no table of a player ({error!r}); it needs a line per tick with {', '.join(_COLUMNS)}"
        ) from error


def _open_table(path: Path) -> TextIO:
    """Data sets are often folders of links to one store of files, so links are followed here; pipes are not."""
    return io.TextIOWrapper(open_binary(path, limit=DOCUMENT_BYTES, follow_links=True), "utf-8", newline="")


def map_folders(folder: Path) -> list[Path]:
    here = [folder, *(sorted(folder.iterdir()) if folder.is_dir() else [])]
    roots = [path for path in here if (path / "trajectory").is_dir() and any(path.glob("video_*fps"))]
    return roots[:1] if roots and roots[0] == folder else roots


def video_folder(folder: Path) -> Path:
    """The slowest videos: they are the ones made for learning."""
    return min(sorted(folder.glob("video_*fps")), key=pictures_per_second)


def pictures_per_second(videos: Path) -> float:
    rate = re.fullmatch(r"video_.*?(\d+(?:\.\d+)?)fps", videos.name)
    if not rate or not float(rate[1]):
        raise ContentError(f"{videos} does not end in a rate; X-Ego's are named as video_306x306_4fps")
    return float(rate[1])


def read_offsets(folder: Path) -> dict[str, Offsets]:
    path = folder / "time_offset.json"
    try:
        offsets = parse_json(read_regular(path, follow_links=True))
    except OSError as error:
        raise ContentError(
            f"{explain_os_error(error, path, 'read')}; without it nobody knows when the videos begin"
        ) from error
    except ValueError as error:
        raise ContentError(f"{path} is not JSON ({error}); copy it again") from error
    if not isinstance(offsets, dict):
        raise ContentError(f"{path} holds {type(offsets).__name__}; it should be [match][player][round]")
    return offsets


def read_splits(folder: Path) -> dict[tuple[str, int], Split]:
    """The split of each (match, round), as the data set's makers drew it: by rounds, not by whole matches."""
    tables = {
        "match_round_partitioned.csv": ("split", "match_id", "round_number"),
        "labels/contrastive.csv": ("partition", "match_id", "round_num"),
    }
    for name, (split, match, number) in tables.items():
        path = folder / name
        if not path.is_file():
            continue
        try:
            with _open_table(path) as file:
                splits = {(line[match], int(line[number])): line[split] for line in csv.DictReader(file)}
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        except (KeyError, ValueError, csv.Error) as error:
            raise ContentError(f"{path} names no splits ({error!r}); it needs {split}, {match} and {number}") from error
        return {key: cast("Split", each) for key, each in splits.items() if each in get_args(Split)}
    raise ContentError(f"{folder} says nowhere what is for training: it needs {' or '.join(tables)}")


def find_player(table: Path, videos: Path, offsets: Offsets) -> XegoPlayer:
    player, number = table.parent.name, _round_number(table)
    paths = [path for path in (videos / player).glob("round_*.mp4") if _round_number(path) == number]
    if not paths:
        raise ContentError(f"player {player} has no video of it")
    named = {_number_in(name): entry for name, entry in offsets.get(player, {}).items()}
    try:
        return XegoPlayer(table, paths[0], float(named[number]["offset_sec"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ContentError(f"time_offset.json has no offset_sec for player {player}") from error


def _round_number(path: Path) -> int:
    number = _number_in(path.stem)
    if number < 0:
        raise ContentError(f"{path} is named after no round; X-Ego's are round_1 or round_01")
    return number


def _number_in(name: str) -> int:
    matched = re.fullmatch(r"(?:round_)?(\d+)", name)
    return int(matched[1]) if matched else -1


def first_and_last_tick(table: Path) -> tuple[int, int]:
    """Without reading all that is between."""
    try:
        with open_binary(table, limit=DOCUMENT_BYTES, follow_links=True) as file:
            column = next(csv.reader([file.readline().decode()])).index("tick")
            first = file.readline()
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            last = file.read().rstrip().rpartition(b"\n")[2]
        ends = [int(next(csv.reader([line.decode()]))[column]) for line in (first, last)]
    except OSError as error:
        raise ContentError(explain_os_error(error, table, "read")) from error
    except (ValueError, IndexError, StopIteration) as error:
        raise ContentError(f"{table} has no ticks ({error!r})") from error
    return ends[0], ends[1]
