"""A net in one safetensors file: its weights, and the settings it is made from. Loading runs no code.

A net that is saved so has its `settings`, and a class that is made from them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from torch import nn

from reelrl.errors import CheckpointError, ConfigError
from reelrl.settings import config
from reelrl.storage.files import atomic_path, explain_os_error
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

Net = TypeVar("Net", bound=nn.Module)


def save_net(net: nn.Module, key: str, path: str | Path) -> None:
    """`key` tells what kind of net this is."""
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
    with atomic_path(path, error=CheckpointError) as temporary:
        save_file(tensors, temporary, {key: config.dumps(net.settings)})  # type: ignore[arg-type]


def load_net(
    net_type: type[Net], settings_type: type[Any], keys: Sequence[str], path: str | Path, *, name: str, give: str
) -> Net:
    """The net that `save_net` wrote, ready to answer; where there is none, `name` and `give` go into the error.

    `keys` is what `save_net` calls its kind, and then what earlier versions did.
    """
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            text = metadata[next((key for key in keys if key in metadata), keys[0])]
            tensors = {each: file.get_tensor(each) for each in file.keys()}  # noqa: SIM118
        broken = [each for each, tensor in tensors.items() if not tensor.isfinite().all()]
        if broken:
            raise ConfigError(f"{broken[0]} is not finite")
        net = net_type(config.loads(settings_type, text, str(path)))
        net.load_state_dict(tensors)
    except OSError as error:
        raise CheckpointError(explain_os_error(error, path, "read")) from error
    except (SafetensorError, KeyError, ConfigError, RuntimeError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{path} holds no {name} ({error}); give {give}") from error
    return net.eval()
