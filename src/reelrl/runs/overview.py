"""What stands in a folder of runs: of which kind, how it ended, how far it came, how well it did, how large it is."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.errors import ReelError, RunError
from reelrl.runs.folder import CONFIG, META, RunFolder
from reelrl.runs.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

DAMAGED = "damaged"


@dataclass(frozen=True)
class RunOverview:
    """One run. `figure` is the one that tells how good it is, and `best` its best value so far."""

    folder: Path
    stage: str
    state: str
    step: int | None
    figure: str
    best: float | None
    size_bytes: int
    seed: int | None
    created: str
    problem: str = ""


def overviews(root: str | Path) -> list[RunOverview]:
    """The runs in a folder, and those in folders below it (a sweep's, say), by name."""
    root = Path(root)
    if not root.is_dir():
        raise RunError(f"no folder {root}; give the folder that holds runs, such as runs")
    return [overview(folder) for folder in sorted(_run_folders(root))]


def overview(folder: Path) -> RunOverview:
    """One run, whatever became of it: what cannot be read is said in `problem`."""
    size = size_of(folder)
    try:
        run = RunFolder(folder)
        stage, meta = run.stage, run.meta
        figure = STAGES[stage].figure if stage in STAGES else ""
        saved = run.checkpoints.all()
        return RunOverview(
            folder,
            stage,
            run.state,
            int(saved[-1].name.rpartition("-")[2]) if saved else None,
            figure.removeprefix("-"),
            _best(run, figure),
            size,
            meta.get("seed"),
            str(meta.get("created", "")),
        )
    except ReelError as error:
        return RunOverview(folder, "", DAMAGED, None, "", None, size, None, "", str(error))


def size_of(folder: Path) -> int:
    """Bytes of all files below; what vanishes meanwhile counts as nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(path) / name).lstat().st_size
    return total


def _run_folders(root: Path) -> Iterable[Path]:
    """Folders with a meta.json or a config.yaml beside checkpoints; a run's own folders are not looked into."""
    for path, folders, names in os.walk(root):
        if META in names or (CONFIG in names and "checkpoints" in folders):
            folders.clear()
            yield Path(path)
        folders[:] = [name for name in folders if not name.startswith(".")]


def _best(run: RunFolder, figure: str) -> float | None:
    if not figure:
        return None
    sign = -1.0 if figure.startswith("-") else 1.0
    found = (record.get(figure.removeprefix("-")) for record in run.metrics())
    values = [value for value in found if isinstance(value, int | float) and math.isfinite(value)]
    return sign * max(sign * value for value in values) if values else None
