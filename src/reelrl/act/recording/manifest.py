"""The list of what a folder of matches holds: how it was made, its maps, its matches, and a checksum for every file.

What is not in the manifest is not there: a match is added when its files are complete, and the manifest itself is
replaced all at once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from reelrl import __version__
from reelrl.act.doom.settings import VZCoopConfig
from reelrl.errors import ConfigError, ContentError
from reelrl.names import VIDEO_WRITERS, did_you_mean, resolve
from reelrl.settings import config
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import RESULT_BYTES, inside, open_binary, own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "manifest.json"
LABELS = "labels.npz"
SCHEMA = 2
TICRATE = 35
_ADVICE = "copy it again, or remove the folder of its match and collect once more"

Split = Literal["train", "val", "test", "retrieval"]
# Of every twenty matches on a folder's first map; a match keeps its split when more are added.
_VALIDATION, _TEST = (3, 9, 15), (5, 12, 18)


@dataclass(frozen=True, kw_only=True)
class RecordingSettings:
    """How all matches of a folder are made."""

    players: int = 4
    skip: int = 4
    """Tics from one row to the next; actions are held as long."""
    seconds: float = 40.0
    """Of each match, in the game's time."""
    resolution: str = "RES_256X192"
    video: str = "av1"
    squad: float = 0.0
    """Share of walks that lead to where the first player is; 0: all roam, and four walks in ten lead to a mate."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.video not in VIDEO_WRITERS:
            raise ConfigError(f"video is {self.video!r}{did_you_mean(self.video, VIDEO_WRITERS)}")
        if not 0 <= self.squad <= 1:
            raise ConfigError(f"squad is {self.squad}; it is a share from 0 to 1")
        for name in ("players", "skip"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not (math.isfinite(self.seconds) and self.rows >= 1):
            raise ConfigError(f"seconds is {self.seconds}; a match has one row at least, {self.skip / TICRATE:.2f} s")

    @property
    def rows(self) -> int:
        """Of a match that is played to its end."""
        return int(self.seconds * TICRATE / self.skip)

    def match(self, scenario: str) -> VZCoopConfig:
        """Settings of a match, checked. The status bar is not drawn: it would tell who is who and how late it is."""
        match = VZCoopConfig(
            config_path=scenario,
            num_players=self.players,
            skip=self.skip,
            screen_resolution=self.resolution,
            ticrate=TICRATE,
            mask_hud=True,
            # The dead stay away for a while, as in any team; two tics would be over before anybody missed them. The
            # table of scores that they would see meanwhile is turned off.
            extra_game_args="+viz_respawn_delay 2 +sb_cooperative_enable 0",
        )
        if self.video == "av1" and any(side % 2 for side in match.screen_size):
            raise ConfigError(f"{self.resolution} has an odd side, which AV1 cannot take; choose another or lossless")
        return match

    def video_name(self, player: int) -> str:
        """The file of a player's view, within its match's folder."""
        return f"player_{player}{resolve(VIDEO_WRITERS, self.video).suffix}"


@dataclass(frozen=True)
class FileFacts:
    """How a file was written; a file that is otherwise now is refused."""

    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256) or self.bytes < 0:
            raise ConfigError(f"{self.sha256[:70]!r} and {self.bytes} bytes cannot be facts of a file")

    @classmethod
    def of(cls, path: Path) -> FileFacts:
        with _readable(path), open_binary(path) as file:
            return cls(hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size)

    def check_size(self, path: Path) -> None:
        """A look that costs nothing and finds files cut short."""
        with _readable(path), open_binary(path) as file:
            size = os.fstat(file.fileno()).st_size
        if size != self.bytes:
            raise ContentError(f"{path} has {size} bytes, the manifest says {self.bytes}; {_ADVICE}")

    def check(self, path: Path) -> None:
        """Compare every byte."""
        self.check_size(path)  # before reading what may be endless
        if FileFacts.of(path) != self:
            raise ContentError(f"{path} is not the file that was written: its checksum differs; {_ADVICE}")


@dataclass(frozen=True)
class MapEntry:
    """A map that was played: the scenario to find it by, and the files of its plan."""

    scenario: str
    files: dict[str, FileFacts]


@dataclass(frozen=True)
class MatchEntry:
    id: str
    map: str
    split: Split
    seed: int
    frames: int
    files: dict[str, FileFacts]


@dataclass
class Manifest:
    """In memory what the file says."""

    settings: RecordingSettings
    maps: dict[str, MapEntry] = field(default_factory=dict)
    matches: list[MatchEntry] = field(default_factory=list)
    made_by: str = f"reelrl {__version__}"

    def add(self, match: MatchEntry) -> None:
        """One more match; those of the first map stay in front."""
        order = list(self.maps)
        self.matches = sorted([*self.matches, match], key=lambda each: (order.index(each.map), each.id))

    def split_of(self, map_name: str, number: int) -> Split:
        """Places are labels of the first map with a match alone; matches on any other are for retrieval."""
        # Matches decide, not the list of maps: one may have been measured and then never played on.
        labelled = {each.map for each in self.matches if each.split != "retrieval"}
        retrieved = {each.map for each in self.matches if each.split == "retrieval"}
        if map_name in retrieved or labelled - {map_name}:
            return "retrieval"
        return "val" if number % 20 in _VALIDATION else "test" if number % 20 in _TEST else "train"

    def write(self, folder: Path) -> None:
        write_atomic(own_path(folder / NAME), json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / NAME
        if not path.exists():
            raise ContentError(
                f"{folder} holds no matches: there is no {NAME} in it; give a folder that "
                "`reel collect doom --matches 80 -o FOLDER` made"
            )
        try:
            with _readable(path):
                data = parse_json(read_regular(path, RESULT_BYTES))
        except ValueError as error:
            raise ContentError(f"{path} is damaged ({error}); copy it again") from error
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            advice = "collect the matches anew"
            if isinstance(schema, int):
                advice = "update reelrl" if schema > SCHEMA else f"reel collect doom --convert {folder}"
            raise ContentError(f"{path} has schema {schema!r}, this reelrl reads {SCHEMA}; {advice}")
        try:
            manifest = cls(
                settings=config.from_mapping(RecordingSettings, data["settings"], origin=path),
                maps={name: config.from_mapping(MapEntry, entry) for name, entry in data["maps"].items()},
                matches=[config.from_mapping(MatchEntry, entry) for entry in data["matches"]],
                made_by=str(data["made_by"]),
            )
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ContentError(f"{path} is not as reelrl writes it ({error!r}); copy it again") from error
        for name, entry in manifest.maps.items():
            plan = f"maps/{name}.json"
            inside(folder, plan)
            if plan not in entry.files:
                raise ContentError(f"{path} does not list {plan[:200]!r}; copy it again")
        for match in manifest.matches:
            inside(folder, f"matches/{match.id}/{LABELS}")
        return manifest


def convert(folder: Path) -> int:
    """Make a manifest of an earlier schema one of today; returns the schema it had. The former stays beside it.

    Schema 1 had the same files, of matches in which bodies did not wear colours of their own.
    """
    path = folder / NAME
    with _readable(path):
        text = read_regular(path, RESULT_BYTES)
    try:
        data = parse_json(text)
    except ValueError as error:
        raise ContentError(f"{path} is damaged ({error}); copy it again") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == 1:
        write_atomic(own_path(folder / f"manifest.schema-{schema}.json"), text.decode())
        write_atomic(own_path(path), json.dumps({**data, "schema": SCHEMA}, indent=1) + "\n")
    try:
        Manifest.read(folder)
    except ContentError:
        if schema == 1:
            write_atomic(own_path(path), text.decode())
        raise
    return int(schema or SCHEMA)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error
