"""What there is to work with: generated clips and games always, and the clips in `REELRL_DATA`/clips.

That folder may hold a MANIFEST.json that describes its files; without one every video in it is listed as it is.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from reelrl.content.atari import GAMES, atari_clip
from reelrl.content.clip import Clip
from reelrl.content.generated.clips import STYLES, generated_clip
from reelrl.content.read.uncompressed import RAW_SUFFIXES
from reelrl.errors import ContentError, ReelError
from reelrl.storage.files import explain_os_error
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import inside, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "MANIFEST.json"
VIDEO_SUFFIXES = (".avi", ".ivf", ".mkv", ".mov", ".mp4", ".webm", ".y4m", *RAW_SUFFIXES)
TEST_SHARE = 4  # one in so many unknown sources


@dataclass(frozen=True)
class Entry:
    """A clip that can be opened by its name."""

    clip: Clip
    split: str
    expected_hash: str | None = None

    def verify(self) -> str:
        """What is wrong with the clip, or an empty string: reads all of it."""
        try:
            actual = self.clip.content_hash
        except ReelError as error:
            return str(error)
        if self.expected_hash and actual != self.expected_hash:
            return f"its frames hash to {actual[:12]}..., the manifest says {self.expected_hash[:12]}...; copy it again"
        return ""


def catalogue(folder: Path | None = None) -> list[Entry]:
    """All clips by name; `folder` stands in for `REELRL_DATA`/clips."""
    folder = folder or clips_folder()
    clips = [generated_clip(style) for style in STYLES] + [atari_clip(game) for game in GAMES]
    made = [Entry(clip, split_of(clip.source)) for clip in clips]
    return made + (list(_entries_in(folder)) if folder else [])


def left_out(folder: Path | None = None) -> list[str]:
    """Why videos in a folder without a manifest are not in the catalogue (10-bit, cut short ...), one line each."""
    folder = folder or clips_folder()
    if folder is None or (folder / MANIFEST).exists():
        return []
    return [str(entry) for entry in _open_files(folder) if not isinstance(entry, Clip)]


def clips_folder() -> Path | None:
    """`REELRL_DATA`/clips if the variable is set and the folder is there."""
    data = os.environ.get("REELRL_DATA")
    if not data:
        return None
    folder = Path(data).expanduser() / "clips"
    return folder if folder.is_dir() else None


def split_of(source: str) -> str:
    """Either "train" or "test"; every clip of a source gets the same answer, on every machine."""
    named = _splits().get(source)
    if named:
        return str(named["split"])
    return "test" if hashlib.sha256(source.encode()).digest()[0] % TEST_SHARE == 0 else "train"


def source_from(origin: str, licence: str = "") -> str:
    """The short name of the source that a manifest's texts speak of; the origin itself if it is unknown."""
    for name, rule in _splits().items():
        if any(piece in origin or piece in licence for piece in rule.get("match", ())):
            return name
    return origin


@cache
def _splits() -> dict[str, dict[str, Any]]:
    text = resources.files("reelrl.content").joinpath("splits.yaml").read_text()
    splits: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return splits


def _entries_in(folder: Path) -> Iterator[Entry]:
    manifest = folder / MANIFEST
    if manifest.exists():
        for number, record in enumerate(_read_manifest(manifest)):
            yield _entry_from(manifest, number, record)
        return
    for clip in _open_files(folder):
        if isinstance(clip, Clip):
            yield Entry(clip, split_of(clip.source))


def _open_files(folder: Path) -> Iterator[Clip | ReelError]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise ContentError(explain_os_error(error, folder, "list")) from error
    for path in paths:
        if path.suffix.lower() in VIDEO_SUFFIXES:
            try:
                yield Clip.open(path)
            except ReelError as error:
                yield error


def _read_manifest(path: Path) -> list[Any]:
    try:
        content = parse_json(read_regular(path))
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error
    except (ValueError, RecursionError) as error:
        raise ContentError(
            f"{path} is not JSON ({error}); copy it again, or remove it to list the files alone"
        ) from error
    records = content.get("clips") if isinstance(content, dict) else None
    if not isinstance(records, list):
        raise ContentError(f'{path} has no list "clips"; copy it again, or remove it to list the files alone')
    return records


def _entry_from(manifest: Path, number: int, record: Any) -> Entry:
    try:
        source = source_from(record["source"], record.get("licence", ""))
        clip = Clip.described(
            inside(manifest.parent, record["file"]),
            name=str(record["name"]),
            width=int(record["width"]),
            height=int(record["height"]),
            fps=Fraction(record["fps"]),
            frame_count=int(record["frames"]),
            source=source,
            licence_class=str(record.get("licence_class", "unstated")),
        )
        return Entry(clip, split_of(source), _hash(record.get("raw_yuv_sha256")))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, ContentError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else f"is wrong ({str(error)[:200]})"
        raise ContentError(f"{manifest}: clip {number} {problem}; correct the manifest or copy it again") from error


def _hash(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"raw_yuv_sha256 is {value!r}")
    return value
