"""A model's weights in one file, and weights from elsewhere. Loading runs no code.

artifacts/model.safetensors     every parameter and buffer; the settings in the file's metadata
quick_demo_model.pth            a state dict that torch saved, whole or inside a dict of the trainer
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reelrl.errors import CheckpointError
from reelrl.settings import config
from reelrl.storage.files import atomic_path, explain_os_error
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from reelrl.see.learner import StreamingAutoEncoder

# Where trainers keep the weights in a file that also holds other things.
INNER = ("model_state_dict", "state_dict", "model")
# What torch's reader of plain pickles stumbles over in a damaged one, besides what it refuses.
_STUMBLES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError)


def save_weights(model: StreamingAutoEncoder, path: str | Path) -> None:
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with atomic_path(path, error=CheckpointError) as temporary:
        save_file(tensors, temporary, {"settings": config.dumps(model.settings)})


def load_weights(model: nn.Module, path: str | Path) -> str:
    """Take from a file what fits by name and shape; returns what was taken, in words."""
    offered = _read(Path(path))
    wanted = model.state_dict()
    broken = [name for name, value in offered.items() if not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{path} holds numbers that are not finite, in {_some(broken)}; train it anew")
    taken = {name: value for name, value in offered.items() if name in wanted and value.shape == wanted[name].shape}
    if not taken:
        raise CheckpointError(
            f"{path} has {len(offered)} tensors, none of which fits this model by name and shape "
            f"(it has {_some(offered)}; wanted are {_some(wanted)}); train with its settings, or leave it out"
        )
    model.load_state_dict(wanted | taken)
    left = sorted(wanted.keys() - taken.keys())
    rest = f"; as they were: {_some(left)}" if left else ""
    return f"{len(taken)} of {len(wanted)} tensors{rest}"


def _read(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        check_regular(path, follow_links=True)
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        held = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(explain_os_error(error, path, "read")) from error
    except (SafetensorError, pickle.UnpicklingError, EOFError, *_STUMBLES) as error:
        why = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{path} holds no plain weights ({why}); give a .safetensors file or a state dict saved by torch"
        ) from error
    return _tensors(held, path)


def _tensors(held: Any, path: Path) -> dict[str, Tensor]:
    for key in INNER:
        if isinstance(held, dict) and isinstance(held.get(key), dict):
            held = held[key]
    tensors = {str(k): v for k, v in held.items() if isinstance(v, Tensor)} if isinstance(held, dict) else {}
    if not tensors:
        raise CheckpointError(f"{path} holds {type(held).__name__} without tensors; give a state dict of a model")
    return tensors


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
