"""The file of a linear rule: one weight for each of the inputs that it was fitted to, and how it came about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import CheckpointError
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


def checked_weights(weights: Sequence[float], inputs: Sequence[str]) -> NDArray[np.float64]:
    """As an array; one finite weight per input, or CheckpointError."""
    array = np.array(weights, np.float64)
    if array.shape != (len(inputs),) or not np.isfinite(array).all():
        raise CheckpointError(f"weights {array.tolist()}; a rule has {len(inputs)} finite ones, one per input")
    return array


def load_rule(
    path: str | Path, inputs: Sequence[str], *, what: str, command: str
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Weights and facts; `what` the file should be and the `command` that makes one go into the error."""
    try:
        saved = parse_object(read_regular(path, follow_links=True))
        if saved["inputs"] != list(inputs):
            raise CheckpointError(f"{path} sees {saved['inputs']}, this version shows {list(inputs)}; fit it anew")
        return checked_weights(saved["weights"], inputs), saved["facts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is no {what} ({type(error).__name__}: {error}); make one: {command} -o {path}"
        ) from error


def save_rule(path: str | Path, inputs: Sequence[str], weights: NDArray[np.float64], facts: dict[str, Any]) -> None:
    rule = {"inputs": inputs, "weights": weights.tolist(), "facts": facts}
    write_atomic(path, json.dumps(rule, indent=2) + "\n")
