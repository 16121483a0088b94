"""Matches in the layout of X-Ego, read as if `reel collect` had written them.

    data = open_matches(folder)        # ours or X-Ego's, whichever it is

A round is a match of ours, a row one picture's time. Players have tables while they live. What is not in the tables is
unknown here: angles are NaN, kills 0, and nobody is ever on a screen. Players of the other side are the enemies.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.recording.labels import Labels
from reelrl.act.recording.maps import VisitedPlan
from reelrl.act.recording.reader import MatchData, MatchInfo
from reelrl.act.recording.xego_layout import (
    XegoPlayer,
    find_player,
    first_and_last_tick,
    map_folders,
    pictures_per_second,
    read_offsets,
    read_splits,
    read_track,
    tables_of_rounds,
    video_folder,
)
from reelrl.content.read.random_access import OpenVideos
from reelrl.errors import ConfigError, ContentError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from reelrl.act.recording.manifest import Split
    from reelrl.act.recording.reader import Matches

TICKS_PER_SECOND = 64
_ROUNDS_FOR_A_MAP = 60  # whose positions draw it
# Where Counter-Strike writes on the screen, as shares of it: left, top, right, bottom. The first one is a map with the
# teammates on it: who sees that needs no net.
HUD = (
    (0, 0, 0.2, 0.3),
    (0.3, 0, 0.7, 0.17),
    (0.83, 0, 1, 0.3),
    (0, 0.92, 0.09, 1),
    (0.25, 0.88, 0.75, 1),
    (0.88, 0.7, 1, 1),
)


@dataclass(frozen=True)
class Round:
    """One round of a match on disk."""

    info: MatchInfo
    players: tuple[XegoPlayer, ...]
    first_tick: int


def open_matches(folder: str | Path) -> Matches:
    """The matches of a folder, ours or in the layout of X-Ego."""
    return XegoData(Path(folder)) if map_folders(Path(folder)) else MatchData.open(folder)


class XegoData:
    """A folder with one map or several; the same to read as `MatchData`. For one thread at a time.

    `left_out` tells which rounds cannot be used, and why.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left_out: dict[str, str] = {}
        maps = map_folders(folder)
        if not maps:
            raise ContentError(f"{folder} has no <map>/video_*fps and <map>/trajectory folders; give one of X-Ego")
        rates = {path: pictures_per_second(video_folder(path)) for path in maps}
        if len(set(rates.values())) > 1:
            raise ContentError(f"the maps in {folder} have videos of different rates; give them one by one")
        self.rows_per_second = next(iter(rates.values()))
        self._rounds = {one.info.id: one for path in maps for one in self._find_rounds(path)}
        if not self._rounds:
            name, why = next(iter(self.left_out.items()), ("it", "there are no tables"))
            raise ContentError(f"{folder} has no round that can be used; {name}: {why}")
        self.matches = tuple(one.info for one in self._rounds.values())
        self.videos = OpenVideos()
        self._plans: dict[str, VisitedPlan] = {}

    def map(self, name: str) -> VisitedPlan:
        """Drawn from where players of some rounds have been."""
        rounds = [one for one in self._rounds.values() if one.info.map == name]
        if not rounds:
            raise ConfigError(f"{self.folder} has no map {name!r}{did_you_mean(name, {m.map for m in self.matches})}")
        if name not in self._plans:
            some = rounds[:: max(1, len(rounds) // _ROUNDS_FOR_A_MAP)]
            tracks = [read_track(player.table) for one in some for player in one.players]
            position = np.concatenate([track.position for track in tracks])
            self._plans[name] = VisitedPlan.of(name, position, np.concatenate([track.place for track in tracks]))
        return self._plans[name]

    def match(self, name: str) -> XegoMatch:
        if name not in self._rounds:
            raise ConfigError(f"{self.folder} has no match {name!r}{did_you_mean(name, self._rounds)}")
        return XegoMatch(self, self._rounds[name])

    def close(self) -> None:
        self.videos.close()

    def _find_rounds(self, folder: Path) -> Iterator[Round]:
        offsets, splits, videos = read_offsets(folder), read_splits(folder), video_folder(folder)
        for match, number, tables in tables_of_rounds(folder):
            name = f"{match}-round_{number:02d}"
            try:
                players = tuple(find_player(table, videos / match, offsets.get(match, {})) for table in tables)
                if (match, number) not in splits:
                    raise ContentError("no split names it")
                yield self._round(name, folder.name, splits[match, number], players)
            except ContentError as error:
                self.left_out[name] = str(error)

    def _round(self, name: str, map_name: str, split: Split, players: tuple[XegoPlayer, ...]) -> Round:
        ends = [first_and_last_tick(player.table) for player in players]
        first, last = min(end[0] for end in ends), max(end[1] for end in ends)
        rows = int((last - first) / TICKS_PER_SECOND * self.rows_per_second) + 1
        # Videos are too large to read for a checksum; name, size and time change with them.
        facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for p in players for path in p[:2]]
        digest = hashlib.sha256(repr(facts).encode()).hexdigest()
        return Round(MatchInfo(name, map_name, split, 0, rows, len(players), digest), players, first)


class XegoMatch:
    """One round: `labels` for all players, `frames` of each."""

    def __init__(self, data: XegoData, one: Round) -> None:
        self._data, self._round, self.info = data, one, one.info

    @cached_property
    def labels(self) -> Labels:
        rows, players = self.info.frames, self.info.players
        ticks = self._round.first_tick + np.round(np.arange(rows) * TICKS_PER_SECOND / self._data.rows_per_second)
        tracks = [read_track(player.table) for player in self._round.players]
        at = [_entries(track.tick, ticks, TICKS_PER_SECOND / self._data.rows_per_second) for track in tracks]
        health = np.stack([np.where(i >= 0, t.health[i], 0) for t, i in zip(tracks, at, strict=True)], 1)
        alive = health > 0
        position = np.stack([t.position[i] for t, i in zip(tracks, at, strict=True)], 1)
        sides = np.array([track.side for track in tracks], np.int8)
        return Labels(
            tic=(ticks - self._round.first_tick).astype(np.int32),
            position=np.where(alive[..., None], position, np.nan).astype(np.float32),
            angle=np.full((rows, players), np.nan, np.float32),
            health=health.astype(np.float32),
            alive=alive,
            team=np.tile(sides, (rows, 1)),
            kills=np.zeros((rows, players), np.int32),
            enemy_position=np.zeros((rows, 0, 3), np.float32),
            enemy_alive=np.zeros((rows, 0), bool),
            sees_mate=np.zeros((rows, players, players), bool),
            sees_enemy=np.zeros((rows, players, 0), bool),
        )

    def frames(self, player: int, indices: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """What a player saw at these rows, with what the game writes on it blacked out.

        Before its video begins and after it ends, the nearest picture.
        """
        if not 0 <= player < self.info.players:
            raise ConfigError(f"player {player} of {self.info.id}, which has players 0 to {self.info.players - 1}")
        rows = np.asarray(indices, np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.info.frames):
            raise ConfigError(f"row {rows.max()} of {self.info.id}, which has rows 0 to {self.info.frames - 1}")
        one, rate = self._round.players[player], self._data.rows_per_second
        video = self._data.videos.open(one.video)
        numbers = np.floor((rows / rate + one.offset_s) * rate + 1e-6).astype(np.int64)
        pictures = video.pictures(np.clip(numbers, 0, video.frame_count - 1))
        height, width = pictures.shape[1:3]
        for left, top, right, bottom in HUD:
            rows_hidden = slice(int(top * height), math.ceil(bottom * height))
            pictures[:, rows_hidden, int(left * width) : math.ceil(right * width)] = 0
        return pictures


def _entries(ticks: NDArray[np.int64], wanted: NDArray[np.float64], reach: float) -> NDArray[np.int64]:
    """Numbers of the entries that hold at the ticks wanted; -1 before, after, and in gaps longer than `reach`."""
    latest = np.searchsorted(ticks, wanted, side="right") - 1
    holds = (latest >= 0) & (wanted <= ticks[-1]) & (wanted - ticks[latest] <= reach)
    return np.where(holds, latest, -1)
