"""What a part of `reel demo` leaves, and how a finished one is found again.

    make(folder, options) -> DemoPart      in each stage; names.py lists them
    folder/parts/NAME.json                 the part as plain data, under a key of all that it depends on

A part that was finished is not made again: not when the demo was stopped in the middle, not when another part is asked
for later. Another version, another clip or a file that is gone makes it anew.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl import __version__
from reelrl.errors import ReelError
from reelrl.report.page import Html
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

CLIP, FRAMES = "generated:street", 60
FORMAT = 4
"""Raise it when any part changes: what was made under another number is made again."""


@dataclass(frozen=True)
class DemoOptions:
    """What was asked for: a clip and how many frames of it at most, for the parts that take one."""

    clip: str = CLIP
    frames: int = FRAMES


class DemoPart(NamedTuple):
    """Its heading where it comes first on the page, its sections, its figures, the lines it prints, its films."""

    title: str
    lead: str
    sections: Sequence[Html]
    record: dict[str, Any]
    lines: Sequence[Sequence[str]]
    files: Sequence[str] = ()


def finished_part(name: str, folder: Path, options: DemoOptions) -> DemoPart | None:
    """The part as it was made before, if it was made by this version with these options and its films are there."""
    try:
        saved = json.loads(read_regular(_path(name, folder)))
        part = DemoPart(**saved["part"])
        current = saved["key"] == _key(options) and all((folder / file).is_file() for file in part.files)
    except (ReelError, OSError, ValueError, KeyError, TypeError):
        return None
    return part._replace(sections=[Html(each) for each in part.sections]) if current else None


def made_part(name: str, folder: Path, options: DemoOptions, make: Callable[[Path, DemoOptions], DemoPart]) -> DemoPart:
    """The part, made now and saved."""
    part = make(folder, options)
    writable_folder(_path(name, folder).parent)
    write_atomic(own_path(_path(name, folder)), json.dumps({"key": _key(options), "part": part._asdict()}, default=str))
    return part


def _path(name: str, folder: Path) -> Path:
    return folder / "parts" / f"{name}.json"


def _key(options: DemoOptions) -> dict[str, Any]:
    return {"format": FORMAT, "version": __version__} | asdict(options)
