"""The file of a learned bitrate policy: weights, sizes, facts. Safetensors, so that loading runs no code."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from reelrl.errors import CheckpointError, shown
from reelrl.runs.policy_file import check_finite
from reelrl.storage import tensor_file
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    from torch import nn

    Arrays = dict[str, npt.NDArray[np.float32]]

T = TypeVar("T")
LARGEST_SIZE = 4096


def save_actor(actor: nn.Module, path: Path, shape: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write the weights, the sizes of the network and `facts` (how it was trained, how it scored)."""
    tensors = {name: tensor.detach().cpu().numpy().copy() for name, tensor in actor.state_dict().items()}
    write_atomic(path, tensor_file.to_bytes(tensors, {"shape": json.dumps(shape), "facts": json.dumps(facts)}))


def load_actor(path: Path, kind: str, make: Callable[..., T], sizes: tuple[str, ...]) -> tuple[T, dict[str, Any]]:
    """`make` of these sizes of the file's shape, its actor with the weights of the file; and the facts."""
    import torch

    with _refusing(path, kind):
        tensors, found, facts = _read(path, sizes)
        policy: Any = make(*found)
        policy.actor.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    return policy, facts


def read_actor(
    path: Path, kind: str, shapes: Callable[..., dict[str, tuple[int, ...]]], sizes: tuple[str, ...]
) -> tuple[Arrays, dict[str, Any]]:
    """The weights alone, which must have the `shapes` that belong to the file's sizes; and the facts. Without torch."""
    with _refusing(path, kind):
        tensors, found, facts = _read(path, sizes)
        wanted = shapes(*found)
        if {name: array.shape for name, array in tensors.items()} != wanted:
            odd = [
                name for name in {*wanted, *tensors} if name not in tensors or wanted.get(name) != tensors[name].shape
            ]
            raise ValueError(f"{min(odd)} does not fit a net of {', '.join(map(str, found))}")
    return tensors, facts


def _read(path: Path, sizes: tuple[str, ...]) -> tuple[Arrays, list[int], dict[str, Any]]:
    from safetensors import safe_open

    check_regular(path, follow_links=True)
    with safe_open(path, "np") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    shape, facts = parse_object(metadata["shape"]), parse_object(metadata["facts"])
    check_finite(tensors)
    return tensors, [_size(shape, name) for name in sizes], facts


@contextmanager
def _refusing(path: Path, kind: str) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} holds no {kind} ({reason}); give one that `reel train abr` saved") from error


def kind_of(path: Path) -> str | None:
    """What a file says it is; None where it says nothing, or is no such file at all: its loader refuses that."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "np") as file:
            return parse_object((file.metadata() or {})["shape"]).get("kind")
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return None


def _size(shape: dict[str, Any], name: str) -> int:
    # Bounded before a network of that size is made: the weights are compared only afterwards.
    value = shape[name]
    if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} is {shown(value)}, not 1 to {LARGEST_SIZE}")
    return value
