"""What runs leave that nobody needs: runs that saved nothing, and older checkpoints of those that are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reelrl.runs.folder import RunFolder
from reelrl.runs.overview import DAMAGED, overviews, size_of

if TYPE_CHECKING:
    from pathlib import Path


class Leftover(NamedTuple):
    """A folder that can go."""

    folder: Path
    why: str
    size_bytes: int


def leftovers(root: str | Path) -> list[Leftover]:
    """In the order of the runs. What is damaged stays: a person may still save something from it."""
    found = []
    for each in overviews(root):
        if each.state in ("running", DAMAGED):
            continue
        run = RunFolder(each.folder)
        saved = run.checkpoints.all()
        if not saved and not any(run.artifacts.iterdir()):
            found.append(Leftover(each.folder, f"{each.state} before anything was saved", each.size_bytes))
        elif each.state == "done":
            found += [Leftover(old, "older checkpoint of a run that is done", size_of(old)) for old in saved[:-1]]
    return found
