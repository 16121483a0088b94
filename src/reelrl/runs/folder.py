"""The run folder: everything that is known about one training or evaluation.

    runs/0007-minigop-sac/
      config.yaml       stage and resolved settings        meta.json      schema, seed, versions, facts
      episodes.jsonl    one line per episode               metrics.jsonl  one line per logged step
      tb/  checkpoints/  artifacts/

`RunFolder` reads, without a lock; `Run` writes, one writer per folder.

    with Run.create("runs", settings, stage="minigop", name="minigop-sac", seed=3) as run:
        run.log_metrics(step, {"reward": 41.2})
        run.checkpoint(step, tensors, state)
    with Run.open("runs/0007") as run:
        checkpoint = run.resume()
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from reelrl import __version__
from reelrl.errors import ConfigError, RunError, shown
from reelrl.runs.checkpoints import Checkpoint, Checkpoints
from reelrl.runs.records import Log, read_records, to_plain
from reelrl.runs.stages import FORMER_STAGES
from reelrl.settings import config, yaml_text
from reelrl.storage.files import explain_os_error, sync_folder, writable_folder, write_atomic
from reelrl.storage.locks import FolderLock, is_locked
from reelrl.storage.plain_data import parse_json
from reelrl.storage.regular_files import check_regular, own_folder, own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from _typeshed import DataclassInstance

    from reelrl.runs.checkpoints import Tensors
    from reelrl.runs.tensorboard import Board

T = TypeVar("T", bound="DataclassInstance")

SCHEMA = 1
CONFIG, META, EPISODES, METRICS = "config.yaml", "meta.json", "episodes.jsonl", "metrics.jsonl"
FOLDERS = ("tb", "checkpoints", "artifacts")


class RunFolder:
    """A run, to read. `folder` may be shortened to its number: "runs/0007"."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = find_run(folder)
        for name in FOLDERS:
            own_folder(self.folder / name, RunError)
        self.checkpoints = Checkpoints(self.folder / "checkpoints")

    @property
    def meta(self) -> dict[str, Any]:
        path = self.folder / META
        try:
            meta = parse_json(read_regular(path))
        except OSError as error:
            raise RunError(explain_os_error(error, path, "read")) from error
        except ValueError as error:
            raise RunError(f"{path} is not JSON ({error}); this run folder is damaged") from error
        if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
            raise RunError(
                f"{path} does not have schema {SCHEMA}, which this reelrl {__version__} reads; "
                "use the version that wrote it, or train anew"
            )
        return meta

    @property
    def seed(self) -> int:
        """Where all chance of the run comes from."""
        seed = self.meta.get("seed")
        if type(seed) is not int or seed < 0:
            raise RunError(
                f"{self.folder / META} has seed {shown(seed)}, where a whole number is wanted; it is damaged"
            )
        return seed

    @property
    def state(self) -> str:
        """`running` while somebody writes to it, then how its training ended; `killed` where nobody could say that."""
        if is_locked(self.folder):
            return "running"
        return str(self.meta.get("ended") or "killed")

    @property
    def stage(self) -> str:
        """The word behind `reel train` that made the run, as it is called today."""
        stage = str(self._config()["stage"])
        return FORMER_STAGES.get(stage, stage)

    def settings(self, cls: type[T]) -> T:
        """The settings that the run was started with, equal to the object that was saved."""
        return config.from_mapping(cls, self._config()["settings"], origin=self.folder / CONFIG)

    def setting(self, name: str) -> Any:
        """One setting as it stands in the file; None where there is none, as in runs of earlier versions."""
        settings = self._config()["settings"]
        return settings.get(name) if isinstance(settings, dict) else None

    def episodes(self) -> Iterator[dict[str, Any]]:
        return read_records(self.folder / EPISODES)

    def metrics(self) -> Iterator[dict[str, Any]]:
        return read_records(self.folder / METRICS)

    @property
    def artifacts(self) -> Path:
        """Where figures, streams and exports of this run go."""
        return self.folder / "artifacts"

    def artifact(self, name: str) -> Path:
        """An artifact to read. A link or pipe at its name is refused; that it is missing is its reader's to say."""
        path = self.artifacts / name
        try:
            check_regular(path)
        except FileNotFoundError:
            return path
        except OSError as error:
            raise RunError(explain_os_error(error, path, "read")) from error
        return path

    def config_text(self) -> str:
        path = self.folder / CONFIG
        try:
            return read_regular(path).decode("utf-8")
        except OSError as error:
            raise RunError(explain_os_error(error, path, "read")) from error
        except UnicodeDecodeError as error:
            raise RunError(f"{path} is not UTF-8 text (byte {error.start}); this run folder is damaged") from error

    def _config(self) -> dict[str, Any]:
        written = yaml_text.parse(self.config_text(), str(self.folder / CONFIG))
        if not isinstance(written, dict) or written.keys() != {"stage", "settings"}:
            raise RunError(f"{self.folder / CONFIG} does not hold `stage` and `settings`; this is no run folder")
        return written


class Run(RunFolder):
    """A run, to write. Closing releases the folder to the next writer."""

    def __init__(self, folder: str | Path, lock: FolderLock | None = None, *, tensorboard: bool = True) -> None:
        super().__init__(folder)
        self._tensorboard = tensorboard
        self._lock = lock or FolderLock(self.folder)
        try:
            _ = self.meta  # a folder of another schema must not be written to
            self._logs = {name: Log(self.folder / name) for name in (EPISODES, METRICS)}
        except BaseException:
            self._lock.release()
            raise
        self.board = self._open_board()

    @classmethod
    def create(
        cls,
        root: str | Path,
        settings: DataclassInstance,
        *,
        stage: str,
        name: str,
        seed: int | None = None,
        facts: Mapping[str, Any] | None = None,
        tensorboard: bool = True,
    ) -> Self:
        """A new run under `root`, with the next free number; `facts` (encoder build, content) go to meta.json."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ConfigError(f"run name is {name!r}; use letters, digits, dots, dashes and underscores")
        claimed, number = _claim(writable_folder(root, error=RunError))
        lock = FolderLock(claimed)
        try:
            _fill(claimed, settings, stage, {"number": number, "name": name, "seed": seed, "facts": facts or {}})
            folder = claimed.rename(claimed.with_name(f"{claimed.name}-{name}"))
            sync_folder(folder.parent)
        except BaseException:
            lock.release()
            shutil.rmtree(claimed, ignore_errors=True)
            raise
        return cls(folder, lock, tensorboard=tensorboard)

    @classmethod
    def open(cls, folder: str | Path, *, tensorboard: bool = True) -> Self:
        """An existing run, to continue; a second writer is refused with the process that holds the folder."""
        return cls(folder, tensorboard=tensorboard)

    def log_episode(self, record: Mapping[str, Any]) -> None:
        self._logs[EPISODES].append(record)

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers at a step, to metrics.jsonl and TensorBoard."""
        self._logs[METRICS].append({"step": step, **values})
        self.board.scalars(step, values)

    def checkpoint(self, step: int, tensors: Tensors, state: Mapping[str, Any]) -> Path:
        """Save so that `resume` continues from here; the logs up to now are on the disk first."""
        if "logs" in state:
            raise ConfigError("state has a key 'logs', which the run keeps for itself; rename it")
        self.board.flush()
        for log in self._logs.values():
            log.sync()
        marks = {name: log.size for name, log in self._logs.items()}
        return self.checkpoints.save(step, tensors, {**state, "logs": marks}, config=self.config_text())

    def new_artifact(self, name: str) -> Path:
        """Where to write an artifact; a link that somebody put there is replaced, not followed."""
        path = self.artifacts / name
        own_folder(path.parent, RunError)
        return own_path(path)

    def mark_ended(self, how: str | None) -> None:
        """Note in meta.json how the training ended: `done`, `stopped` or `failed`; None while it is under way."""
        write_atomic(own_path(self.folder / META), _json(self.meta | {"ended": how}), error=RunError)

    def resume(self) -> Checkpoint | None:
        """The newest whole checkpoint, with the logs taken back to the moment it was saved; None if there is none.

        What was logged after it will be logged again, as if nothing had happened.
        """
        checkpoint = self.checkpoints.latest()
        marks = checkpoint.state.get("logs") if checkpoint else {}
        if not isinstance(marks, dict):
            raise RunError(f"the checkpoint saw logs {shown(marks)}, where sizes by name are wanted; use an older one")
        for name, log in self._logs.items():
            log.cut(marks.get(name, 0))
        self.board.close()
        self.board = self._open_board(resumed_at=checkpoint.step + 1 if checkpoint else 0)
        return checkpoint

    def close(self) -> None:
        """Flush, and let go of the folder. A second call does nothing."""
        logs, self._logs = self._logs, {}
        try:
            self.board.close()
        finally:
            for log in logs.values():
                log.close()
            self._lock.release()

    def _open_board(self, resumed_at: int | None = None) -> Board | NoBoard:
        if not self._tensorboard:
            return NoBoard()
        try:
            from reelrl.runs.tensorboard import Board
        except ModuleNotFoundError as error:
            warnings.warn(f"no curves for TensorBoard: {error.name} is not installed", RuntimeWarning, stacklevel=3)
            return NoBoard()
        return Board(self.folder / "tb", resumed_at=resumed_at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NoBoard:
    """A board that nobody looks at."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None: ...
    def image(self, tag: str, step: int, picture: Any) -> None: ...
    def histogram(self, tag: str, step: int, values: Any, bins: int = 30) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def find_run(folder: str | Path) -> Path:
    """The run folder meant by a path or its numbered beginning ("runs/0007" for "runs/0007-minigop-sac")."""
    path = Path(folder)
    if (path / META).exists():
        return path
    matches = sorted(path.parent.glob(f"{path.name}-*/{META}")) if path.name.isdecimal() else []
    if len(matches) == 1:
        return matches[0].parent
    why = f"{len(matches)} runs begin so" if matches else "there is no run (a folder with meta.json) there"
    raise RunError(f"no run at {folder}: {why}; give the path of one, such as runs/0007")


def _claim(root: Path) -> tuple[Path, int]:
    """A new folder with a number of its own, named by the number alone until it is filled.

    mkdir of the bare number is the claim; while it is held nobody else can hold the same, and a run that was renamed to
    "0007-name" between our look and our claim is seen by the second look.
    """
    while True:
        number = max(_numbers(root), default=0) + 1
        folder = root / f"{number:04d}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(explain_os_error(error, folder, "create run")) from error
        if _numbers(root).count(number) == 1:
            return folder, number
        folder.rmdir()


def _numbers(root: Path) -> list[int]:
    matches = (re.match(r"(\d{4,})(?:-|$)", path.name) for path in root.iterdir())
    return [int(match[1]) for match in matches if match]


def _fill(folder: Path, settings: DataclassInstance, stage: str, facts: dict[str, Any]) -> None:
    for name in FOLDERS:
        writable_folder(folder / name, error=RunError)
    contents = {"stage": stage, "settings": config.to_mapping(settings)}
    write_atomic(own_path(folder / CONFIG), yaml_text.write(contents), error=RunError)
    versions = {"reelrl": __version__, "python": platform.python_version(), "platform": platform.platform()}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    meta = {"schema": SCHEMA, **facts, "created": created, "command": sys.argv, "versions": versions}
    write_atomic(own_path(folder / META), _json(meta), error=RunError)


def _json(meta: dict[str, Any]) -> str:
    return json.dumps(to_plain(meta), indent=2) + "\n"
