"""A match as a task of `reelrl.parallel`: played where there is a worker, its files brought to the collection.

What a match is follows from the task alone, so one whose worker died is played again elsewhere. It is made in a folder
of the collection's where that is seen, else in one of the worker's machine, and its files come home with the record.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from reelrl.act.recording.labels import Labels
from reelrl.act.recording.manifest import FileFacts, RecordingSettings
from reelrl.act.recording.maps import MapPlan
from reelrl.act.recording.one_match import record
from reelrl.errors import ConfigError, ContentError, GameError
from reelrl.storage.files import explain_os_error, sync_folder, write_atomic

_TRIES = 2


@dataclass(frozen=True, eq=False)
class RecordingTask:
    """One match to record: made in a new folder of `aside`, by this version of ViZDoom."""

    name: str
    number: int
    scenario: str
    plan: MapPlan
    settings: RecordingSettings
    seed: int
    aside: Path
    engine: str


@dataclass(frozen=True, eq=False)
class FreshRecording:
    """A match that is complete in `folder`, or in `contents` where that folder is another machine's.

    lost  why it had to be played again, each time
    """

    labels: Labels
    files: dict[str, FileFacts]
    folder: Path
    lost: tuple[str, ...] = ()
    contents: dict[str, bytes] = field(default_factory=dict)

    def move_to(self, folder: Path, aside: Path) -> None:
        """Give it its place in the collection, all at once."""
        try:
            made = self.folder
            if self.contents:
                made = aside / self.folder.name
                made.mkdir()
                for name, content in self.contents.items():
                    write_atomic(made / name, content)
            made.rename(folder)
            sync_folder(folder.parent)
        except OSError as error:
            raise ContentError(explain_os_error(error, folder, "write")) from error


def record_match(task: RecordingTask) -> FreshRecording:
    """Play and record a match here."""
    if (here := engine_version()) != task.engine:
        raise ConfigError(
            f"ViZDoom is {here} on this machine and {task.engine} where the matches are collected, and would play "
            "another match; install the same version"
        )
    if task.aside.is_dir():
        return _recorded(task, task.aside)
    with TemporaryDirectory(prefix="reelrl-") as folder:
        recorded = _recorded(task, Path(folder))
        return replace(recorded, contents={name: (recorded.folder / name).read_bytes() for name in recorded.files})


def engine_version() -> str:
    """Of ViZDoom, on this machine."""
    try:
        return version("vizdoom")
    except PackageNotFoundError:
        return "missing"


def _recorded(task: RecordingTask, aside: Path) -> FreshRecording:
    lost: list[str] = []
    while True:
        # A name of its own: a worker that was taken for dead may still be at it.
        folder = aside / f"{task.name}-{secrets.token_hex(4)}"
        try:
            labels, files = record(folder, task.scenario, task.plan, task.settings, task.seed)
            return FreshRecording(labels, files, folder, tuple(lost))
        except GameError as error:
            # One engine in thousands crashes; that must not end a night's collection.
            lost.append(str(error))
            if len(lost) == _TRIES:
                raise GameError(
                    f"match {task.name} failed {len(lost)} times, finished ones are kept: {error}"
                ) from error
