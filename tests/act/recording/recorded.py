"""Small data sets for tests: real matches, recorded once per test file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.act.recording.collect import Collection
from reelrl.act.recording.manifest import RecordingSettings

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.recording.collect import Collected
    from reelrl.parallel import Executor


def short(**changes: Any) -> RecordingSettings:
    """Two players, because their engines repeat a match to the bit; four seconds; every bit of their views."""
    return RecordingSettings(**{"players": 2, "seconds": 4.0, "video": "lossless", **changes})


def collect(
    folder: Path,
    matches: int = 1,
    scenario: str = "haunted_rooms",
    work: Executor | None = None,
    **changes: Any,
) -> list[Collected]:
    """Bring a folder to so many matches on a map; what was added."""
    collection = Collection(folder, short(**changes))
    try:
        return list(collection.collect(scenario, matches, work))
    finally:
        collection.close()
