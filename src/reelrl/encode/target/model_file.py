"""The models of all figures in one file. Safetensors, so that loading runs no code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.target.lessons import KNOTS
from reelrl.encode.target.model import ENCODERS, SIZE, FigureModel
from reelrl.encode.target.scene_features import NAMES
from reelrl.encode.target.weights import SHIPPED
from reelrl.errors import CheckpointError
from reelrl.runs.policy_file import check_finite
from reelrl.storage import tensor_file
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "target.safetensors"
_LAYOUT = {"knots": list(KNOTS), "steps": "even", "encoders": list(ENCODERS), "features": list(NAMES)}
_SHAPES = {
    "centre": (len(NAMES),),
    "spread": (len(NAMES),),
    "weights": (SIZE, 1 + len(NAMES)),
    "covariance": (SIZE, SIZE),
    "rest": (2,),
}


def save_models(path: Path, models: Mapping[str, FigureModel], facts: Mapping[str, Any]) -> None:
    """Write the models, by figure, and `facts`: what they were fitted to."""
    tensors = {}
    for figure, model in models.items():
        for name in ("centre", "spread", "weights", "covariance"):
            tensors[f"{figure}/{name}"] = getattr(model, name).astype(np.float32)
        tensors[f"{figure}/rest"] = np.array([model.shared, model.noise], np.float32)
    metadata = {"layout": json.dumps(_LAYOUT), "facts": json.dumps(dict(facts))}
    write_atomic(path, tensor_file.to_bytes(tensors, metadata))


def load_models(path: Path = SHIPPED) -> tuple[dict[str, FigureModel], dict[str, Any]]:
    """(models by figure, facts) of a file of `reel train target`."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118
        if parse_object(metadata["layout"]) != _LAYOUT:
            raise ValueError("its knots, steps of CRF, encoders or features are those of another version")
        check_finite(tensors)
        figures = sorted({name.partition("/")[0] for name in tensors})
        return {figure: _model(figure, tensors) for figure in figures}, parse_object(metadata["facts"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path} holds no model of quality targets ({reason}); give one that `reel train target` saved"
        ) from error


def find_models(where: str | None) -> tuple[dict[str, FigureModel], dict[str, Any]]:
    """The models of a run folder, a file or "hub:user/name"; without any, those that come with the package."""
    if where is None:
        return load_models()
    from reelrl.runs import hub
    from reelrl.runs.folder import RunFolder

    path = hub.on_this_machine(where)
    if path.is_file():
        return load_models(path)

    return load_models(RunFolder(where).artifact(FILE))


def _model(figure: str, tensors: Mapping[str, np.ndarray]) -> FigureModel:
    arrays = {name: tensors[f"{figure}/{name}"] for name in _SHAPES}
    for name, array in arrays.items():
        if array.shape != _SHAPES[name]:
            raise ValueError(f"{figure}/{name} is {array.shape}, not {_SHAPES[name]}")
    shared, noise = arrays.pop("rest").tolist()
    if (arrays["spread"] <= 0).any() or not 0 <= shared <= 1 or noise <= 0:
        raise ValueError(f"{figure} has a spread, a share or a noise out of range")
    return FigureModel(figure=figure, shared=shared, noise=noise, **arrays)
