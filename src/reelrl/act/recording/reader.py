"""Matches from disk, with random access by match, row and player.

data = MatchData.open("DATA")
match = data.match(data.matches[0].id)
match.labels.position[100, 2]              # where player 2 was at row 100
match.frames(player=2, indices=[96, 98, 100])   # what it saw then: (3, height, width, 3)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reelrl.act.recording.labels import Labels
from reelrl.act.recording.manifest import LABELS, TICRATE, FileFacts, Manifest, MatchEntry, RecordingSettings, Split
from reelrl.act.recording.maps import MapPlan
from reelrl.content.read.random_access import OpenVideos
from reelrl.errors import ConfigError, ContentError
from reelrl.names import did_you_mean
from reelrl.storage.files import explain_os_error
from reelrl.storage.regular_files import check_regular, inside, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MatchInfo:
    """What the manifest says of a match; `digest` changes with any of its files."""

    id: str
    map: str
    split: Split
    seed: int
    frames: int
    players: int
    digest: str
    labelled: bool = True
    """Without labels nobody knows who was where; all players count as alive all the time."""


class MatchReader(Protocol):
    """One match, whoever recorded it."""

    @property
    def info(self) -> MatchInfo: ...
    @property
    def labels(self) -> Labels: ...
    def frames(self, player: int, indices: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]: ...


class Matches(Protocol):
    """A folder of matches, whoever recorded them."""

    @property
    def folder(self) -> Path: ...
    @property
    def matches(self) -> tuple[MatchInfo, ...]: ...
    @property
    def rows_per_second(self) -> float: ...
    def map(self, name: str) -> MapPlan: ...
    def match(self, name: str) -> MatchReader: ...
    def close(self) -> None: ...


class MatchData:
    """A folder of matches. Reading needs no game engine; for one thread at a time."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self._manifest = folder, manifest
        self._entries = {entry.id: entry for entry in manifest.matches}
        self.matches = tuple(self.info(entry) for entry in manifest.matches)
        self.videos = OpenVideos()

    @classmethod
    def open(cls, folder: str | Path) -> MatchData:
        """The matches of a folder, whose files must all be there in their full size; `check` reads them.

        Labels alone may be missing, and are so for the match that they are of.
        """
        data = cls(Path(folder), Manifest.read(Path(folder)))
        for path, facts in data._files():
            if path.name != LABELS or path.exists():
                facts.check_size(path)
        return data

    @property
    def settings(self) -> RecordingSettings:
        """How the matches were made."""
        return self._manifest.settings

    @property
    def rows_per_second(self) -> float:
        return TICRATE / self.settings.skip

    def map(self, name: str) -> MapPlan:
        if name not in self._manifest.maps:
            raise ConfigError(f"{self.folder} has no map {name!r}{did_you_mean(name, self._manifest.maps)}")
        path = self.folder / "maps" / f"{name}.json"
        self._manifest.maps[name].files[f"maps/{name}.json"].check(path)
        return MapPlan.from_json(read_regular(path), path)

    def match(self, name: str) -> RecordedMatch:
        if name not in self._entries:
            raise ConfigError(f"{self.folder} has no match {name!r}{did_you_mean(name, self._entries)}")
        return RecordedMatch(self, self._entries[name])

    def info(self, entry: MatchEntry) -> MatchInfo:
        text = "".join(facts.sha256 for _, facts in sorted(entry.files.items()))
        digest = hashlib.sha256(text.encode()).hexdigest()
        labels = f"matches/{entry.id}/{LABELS}"
        labelled = labels in entry.files and (self.folder / labels).exists()
        players = self.settings.players
        return MatchInfo(entry.id, entry.map, entry.split, entry.seed, entry.frames, players, digest, labelled)

    def check(self) -> Iterator[Path]:
        """Read every file and compare its checksum; gives those that are as they were written, or raises."""
        for path, facts in self._files():
            facts.check(path)
            yield path

    def close(self) -> None:
        """Close the videos that are open; they open again when they are asked for."""
        self.videos.close()

    def _files(self) -> Iterator[tuple[Path, FileFacts]]:
        maps = [entry.files for entry in self._manifest.maps.values()]
        for files in maps + [entry.files for entry in self._manifest.matches]:
            for name, facts in files.items():
                yield inside(self.folder, name), facts


class RecordedMatch:
    """One match: `labels` for all players, `frames` of each."""

    def __init__(self, data: MatchData, entry: MatchEntry) -> None:
        self._data, self._entry = data, entry
        self.info = data.info(entry)
        self.folder = data.folder / "matches" / entry.id

    @cached_property
    def labels(self) -> Labels:
        if not self.info.labelled:
            return Labels.unknown(self.info.frames, self.info.players)
        path = self.folder / LABELS
        self._entry.files[f"matches/{self._entry.id}/{LABELS}"].check(path)
        labels = Labels.read(path)
        if len(labels) != self.info.frames:
            raise ContentError(f"{path} has {len(labels)} rows, the manifest says {self.info.frames}; copy it again")
        return labels

    def frames(self, player: int, indices: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """What a player saw at these rows: uint8 RGB (n, height, width, 3), in the order asked for."""
        if not 0 <= player < self.info.players:
            raise ConfigError(f"player {player} of {self.info.id}, which has players 0 to {self.info.players - 1}")
        path = self.folder / self._data.settings.video_name(player)
        try:
            check_regular(path)
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        video = self._data.videos.open(path)
        if video.frame_count != self.info.frames:
            raise ContentError(
                f"{video.path} has {video.frame_count} frames, the manifest says {self.info.frames}; copy it again"
            )
        return video.pictures(indices)
