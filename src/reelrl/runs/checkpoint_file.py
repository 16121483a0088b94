"""A checkpoint as one file that can be carried about: arrays in safetensors, the rest as JSON in its header.

The file may have any name ("checkpoint_epoch_5.pt"); it holds no pickle, and loading it runs no code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelrl.errors import CheckpointError, shown
from reelrl.runs.records import to_plain
from reelrl.storage import tensor_file
from reelrl.storage.files import explain_os_error, writable_folder, write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import open_binary

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 1
_PICKLES = (b"PK\x03\x04", b"\x80")  # how files of torch.save begin


@dataclass(frozen=True)
class CheckpointFile:
    """What `load` returns."""

    step: int
    tensors: dict[str, NDArray[Any]] = field(repr=False)
    state: dict[str, Any] = field(repr=False)


def save(path: str | Path, step: int, tensors: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
    """Write all or nothing."""
    facts = {"schema": SCHEMA, "step": step, "sha256": _digest(tensors), "state": to_plain(state)}
    writable_folder(Path(path).parent, error=CheckpointError)
    write_atomic(path, tensor_file.to_bytes(tensors, {"reelrl": json.dumps(facts)}), error=CheckpointError)


def load(path: str | Path) -> CheckpointFile:
    """The checkpoint in a file, after its arrays were checked."""
    from safetensors import SafetensorError, safe_open

    try:
        with open_binary(path, follow_links=True) as file:
            begin = file.read(9)
        # One of ours may begin with the same byte: it is a part of its header's length, and the header follows.
        if begin.startswith(_PICKLES) and not begin.endswith(b"{"):
            raise CheckpointError(f"{path} is a pickle, which runs code when it is loaded; give one that reel saved")
        with safe_open(path, "np") as file:
            facts = parse_object((file.metadata() or {})["reelrl"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if facts["schema"] != SCHEMA:
            raise CheckpointError(f"{path} has schema {shown(facts['schema'])}; this reelrl reads {SCHEMA}")
        if facts["sha256"] != _digest(tensors):
            raise CheckpointError(f"{path} was altered after it was saved (SHA-256 differs); use another one")
        if type(facts["step"]) is not int or not isinstance(facts["state"], dict):
            raise CheckpointError(f"{path} has step {shown(facts['step'])}, or no state; give one that reel saved")
        return CheckpointFile(facts["step"], tensors, facts["state"])
    except OSError as error:
        raise CheckpointError(explain_os_error(error, path, "read")) from error
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} holds no checkpoint ({error}); give one that reel saved") from error


def _digest(tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
