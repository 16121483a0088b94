"""Nested state, as libraries on torch save it, apart: arrays by name, and plain data that JSON holds.

arrays, plain = split(experiment.state_dict())
assert join(arrays, plain) == experiment.state_dict()     # tensors on the CPU, tuples as lists
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def split(tree: Any) -> tuple[dict[str, NDArray[Any]], Any]:
    """Every tensor by its dotted place, and the tree with their names in their stead."""
    arrays: dict[str, NDArray[Any]] = {}
    return arrays, _take(tree, "", arrays)


def join(arrays: Mapping[str, NDArray[Any]], plain: Any) -> Any:
    """The tree that was split."""
    kind, value = plain
    if kind == "tensor":
        if value not in arrays:
            raise CheckpointError(f"the checkpoint lacks the tensor {value!r}; use an older one")
        return torch.from_numpy(arrays[value].copy())
    if kind == "dict":
        return {key: join(arrays, item) for key, item in value}
    if kind == "list":
        return [join(arrays, item) for item in value]
    return value


def _take(node: Any, place: str, arrays: dict[str, NDArray[Any]]) -> list[Any]:
    if isinstance(node, torch.Tensor):
        arrays[place] = node.detach().cpu().numpy()
        return ["tensor", place]
    if isinstance(node, Mapping):
        # Pairs, because JSON has no keys but text, and optimisers number their parameters.
        return ["dict", [[key, _take(item, f"{place}.{key}".strip("."), arrays)] for key, item in node.items()]]
    if isinstance(node, list | tuple):
        return ["list", [_take(item, f"{place}.{index}", arrays) for index, item in enumerate(node)]]
    if node is None or isinstance(node, bool | int | float | str):
        return ["plain", node]
    raise CheckpointError(f"{place} is {type(node).__name__}, which a checkpoint cannot hold")
