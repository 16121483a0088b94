"""The frame reader and the location net that come with the package: small ones, for `haunted_rooms` and `reel demo`."""

from __future__ import annotations

from pathlib import Path

MAP = "haunted_rooms"
_HERE = Path(__file__).parent
READER, NET = _HERE / f"{MAP}-reader.safetensors", _HERE / f"{MAP}-net.safetensors"
