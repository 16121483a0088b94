"""Doom's WAD files: named lumps of bytes, in order. A map is a lump with the map's name, followed by its parts."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEADER = struct.Struct("<4sii")  # kind, number of lumps, where the directory begins
_ENTRY = struct.Struct("<ii8s")  # where a lump begins, its bytes, its name
# Numbers under which map editors know the places where the players of a co-operative game appear.
PLAYER_STARTS = (1, 2, 3, 4, 4001, 4002, 4003, 4004)
DEATHMATCH_START = 11  # and that of anybody who plays against others
_MAP_PARTS = {"THINGS", "LINEDEFS", "SIDEDEFS", "VERTEXES", "SEGS", "SSECTORS", "NODES", "SECTORS", "REJECT"}
_MAP_PARTS |= {"BLOCKMAP", "BEHAVIOR", "SCRIPTS", "TEXTMAP", "ZNODES", "DIALOGUE", "ENDMAP"}

Lump = tuple[str, bytes]


def pack(lumps: list[Lump]) -> bytes:
    """A WAD that adds `lumps` to the game's own."""
    body, directory = b"", b""
    for name, data in lumps:
        directory += _ENTRY.pack(_HEADER.size + len(body), len(data), name.encode())
        body += data
    return _HEADER.pack(b"PWAD", len(lumps), _HEADER.size + len(body)) + body + directory


def unpack(path: Path) -> Iterator[Lump]:
    """The lumps of a WAD file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContentError(f"cannot read {path}: {error.strerror}; check the path") from error
    try:
        kind, count, start = _HEADER.unpack_from(data)
        if kind not in (b"PWAD", b"IWAD"):
            raise ContentError(f"{path} is no WAD: it begins with {kind!r}, not PWAD or IWAD")
        for index in range(count):
            offset, size, name = _ENTRY.unpack_from(data, start + index * _ENTRY.size)
            yield name.rstrip(b"\0").decode("ascii", "replace").upper(), data[offset : offset + size]
    except struct.error as error:
        raise ContentError(f"{path} is a damaged WAD: {error}; fetch it again") from error


def starts(path: Path, map_name: str) -> set[int] | None:
    """Which of `PLAYER_STARTS` and `DEATHMATCH_START` a map has; None where the file does not hold that map."""
    parts: dict[str, bytes] | None = None
    for name, data in unpack(path):
        if name == map_name.upper():
            parts = {}
        elif parts is not None:
            if name not in _MAP_PARTS:
                break
            parts[name] = data
    return None if parts is None else _things(parts) & {*PLAYER_STARTS, DEATHMATCH_START}


def _things(parts: dict[str, bytes]) -> set[int]:
    """The numbers of a map's things, in any of the three formats that maps have."""
    if "TEXTMAP" in parts:
        text = parts["TEXTMAP"].decode("utf-8", "replace")
        blocks = re.findall(r"\bthing\b[^{]*\{([^}]*)\}", text, re.IGNORECASE)
        return {int(number) for block in blocks for number in re.findall(r"\btype\s*=\s*(\d+)", block, re.IGNORECASE)}
    # Hexen's format has scripts beside the map, and longer things: identity and height come before the number.
    record = struct.Struct("<hhhhhhh6x") if "BEHAVIOR" in parts else struct.Struct("<hhhhh")
    field = 5 if "BEHAVIOR" in parts else 3
    things = parts.get("THINGS", b"")
    return {thing[field] for thing in record.iter_unpack(things[: len(things) // record.size * record.size])}
