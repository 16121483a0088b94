"""A net's file in half precision: what ships is half as large, and answers the same.

python -m reelrl.act.location.weights.rounded runs/0001/artifacts/frame-reader.safetensors reader.safetensors
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from reelrl.storage.files import atomic_path

if TYPE_CHECKING:
    from pathlib import Path


def write_rounded(path: str | Path, to: str | Path) -> None:
    """The same tensors in half precision, with the same settings beside them; whoever loads them makes them float32."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name).half() for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    with atomic_path(to) as temporary:
        save_file(tensors, temporary, metadata)


if __name__ == "__main__":
    write_rounded(*sys.argv[1:3])
