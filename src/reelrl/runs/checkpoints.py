"""Checkpoints that survive a kill at any instant, and that run no code when they are loaded.

    checkpoints/00012-step-20000/
      config.yaml  tensors.safetensors  state.json     what was saved
      manifest.json                                     step, and the size and SHA-256 of each of them

A checkpoint is written under a hidden name, synced, and renamed: what has a visible name is whole. The first number
counts up for ever, so a run that went back to an older step still knows which checkpoint is the newest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.errors import CheckpointError, ReelError, shown
from reelrl.runs.records import to_plain
from reelrl.storage.files import explain_os_error, sync_file, sync_folder, writable_folder
from reelrl.storage.plain_data import parse_json, parse_object
from reelrl.storage.regular_files import RESULT_BYTES, open_binary, own_folder, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Tensors = Mapping[str, NDArray[Any]]

SCHEMA = 1
CONFIG, TENSORS, STATE, MANIFEST = "config.yaml", "tensors.safetensors", "state.json", "manifest.json"
FILES = (CONFIG, TENSORS, STATE)
_NAME = re.compile(r"(\d{5,})-step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """What `load` returns: arrays by name, plain data, and the settings as YAML text."""

    folder: Path
    step: int
    tensors: dict[str, NDArray[Any]] = field(repr=False)
    state: dict[str, Any] = field(repr=False)
    config: str = field(repr=False)

    def below(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): array for name, array in self.tensors.items() if name.startswith(prefix)}


class Checkpoints:
    """The checkpoints of one run. Only the run's writer may `save`; anyone may `load`."""

    def __init__(self, folder: Path, *, keep: int = 3) -> None:
        if keep < 1:
            raise CheckpointError(f"keep is {keep}; at least 1 checkpoint must stay")
        self.folder = folder
        self.keep = keep

    def save(self, step: int, tensors: Tensors, state: Mapping[str, Any], *, config: str = "") -> Path:
        """Write a checkpoint and return its folder; older ones beyond `keep` are removed afterwards."""
        writable_folder(self.folder, error=CheckpointError)
        self._sweep()
        number = 1 + max((number for number, _ in self._numbered()), default=0)
        final = self.folder / f"{number:05d}-step-{step}"
        temporary = self.folder / f".saving-{final.name}"
        try:
            temporary.mkdir()
            _write(temporary, step, tensors, state, config)
            temporary.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            raise CheckpointError(explain_os_error(error, final, "save checkpoint")) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._prune()
        return final

    def all(self) -> list[Path]:
        """The folders of all checkpoints, oldest first, unverified."""
        return [path for _, path in sorted(self._numbered())]

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; None where none was ever saved. Damaged ones get a warning."""
        problems: list[str] = []
        for folder in reversed(self.all()):
            try:
                checkpoint = load(folder)
            except CheckpointError as error:
                problems.append(str(error))
                continue
            if problems:
                warnings.warn(f"using {folder.name}, because {'; '.join(problems)}", RuntimeWarning, stacklevel=2)
            return checkpoint
        if problems:
            raise CheckpointError(f"no checkpoint in {self.folder} is whole: {'; '.join(problems)}")
        return None

    def _numbered(self) -> list[tuple[int, Path]]:
        if not self.folder.is_dir():
            return []
        matches = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return [(int(match[1]), path) for match, path in matches if match]

    def _sweep(self) -> None:
        """Remove what a killed writer left half made or half removed."""
        for pattern in (".saving-*", ".removing-*"):
            for leftover in self.folder.glob(pattern):
                _remove(leftover)

    def _prune(self) -> None:
        for old in self.all()[: -self.keep]:
            # Hidden first: a kill in the middle of the removal must not leave half a checkpoint with a good name.
            doomed = self.folder / f".removing-{old.name}"
            old.rename(doomed)
            _remove(doomed)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def restoring(place: str | Path) -> Iterator[None]:
    """Around the code that takes a checkpoint apart: one of another training is an error of ours, not a traceback."""
    try:
        yield
    except ReelError:
        raise
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(":")
        raise CheckpointError(f"{place} does not fit this training ({reason}); use its own run") from error


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, after every byte was checked against its manifest."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    manifest = _read_manifest(own_folder(folder, CheckpointError) / MANIFEST)
    for name in FILES:
        _verify(folder / name, manifest["files"].get(name))
    try:
        tensors = load_file(folder / TENSORS)
        state = parse_object(read_regular(folder / STATE, RESULT_BYTES))
        config = read_regular(folder / CONFIG).decode("utf-8")
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{folder} cannot be read ({error}); use an older checkpoint") from error
    return Checkpoint(folder, manifest["step"], tensors, state, config)


def _write(folder: Path, step: int, tensors: Tensors, state: Mapping[str, Any], config: str) -> None:
    _write_tensors(folder / TENSORS, tensors)
    (folder / STATE).write_text(json.dumps(to_plain(state)), encoding="utf-8")
    (folder / CONFIG).write_text(config, encoding="utf-8")
    facts = {name: {"bytes": (folder / name).stat().st_size, "sha256": _sha256(folder / name)} for name in FILES}
    manifest = {"schema": SCHEMA, "step": step, "files": facts}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for name in (*FILES, MANIFEST):
        sync_file(folder / name)
    sync_folder(folder)


def _write_tensors(path: Path, tensors: Tensors) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    # safetensors writes the raw buffer: a transposed view would come back scrambled.
    whole = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    try:
        save_file(whole, path)
    except (SafetensorError, KeyError, ValueError) as error:
        code = re.search(r"os error (\d+)", str(error))
        if code:  # the library hides the system's error in its text
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        kinds = ", ".join(f"{name} {value.dtype}" for name, value in whole.items())
        raise CheckpointError(f"tensors cannot be saved ({error}): {kinds}; give arrays of numbers") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = parse_json(read_regular(path))
    except OSError as error:
        raise CheckpointError(explain_os_error(error, path, "read")) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged ({error}); use an older checkpoint") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise CheckpointError(f"{path} is no manifest; use an older checkpoint")
    if manifest.get("schema") != SCHEMA:
        raise CheckpointError(f"{path} has schema {shown(manifest.get('schema'))}; this reelrl reads {SCHEMA}")
    step = manifest.get("step")
    if type(step) is not int or step < 0:
        raise CheckpointError(f"{path} has step {shown(step)}, where a whole number is wanted; use an older checkpoint")
    return manifest


def _verify(path: Path, facts: Any) -> None:
    if not isinstance(facts, dict):
        raise CheckpointError(f"the manifest says {shown(facts)} of {path}; use an older checkpoint")
    try:
        with open_binary(path) as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.file_digest(file, "sha256").hexdigest() if size == facts.get("bytes") else ""
    except OSError as error:
        raise CheckpointError(explain_os_error(error, path, "read")) from error
    if size != facts.get("bytes"):
        raise CheckpointError(
            f"{path} has {size} bytes, {shown(facts.get('bytes'))} were saved; use an older checkpoint"
        )
    if digest != facts.get("sha256"):
        raise CheckpointError(f"{path} was altered after it was saved (SHA-256 differs); use an older checkpoint")


def _sha256(path: Path) -> str:
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
