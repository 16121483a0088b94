"""Arrays and a few facts as one safetensors file, the same bytes whenever they are the same.

safetensors writes its metadata in the order of a hash table, which differs from process to process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_METADATA = "__metadata__"
_LENGTH_BYTES = 8  # of the header's length, which comes first


def to_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """The file's content; `metadata` sorted by name."""
    from safetensors.numpy import save

    # safetensors takes the raw buffer: a transposed view would come back scrambled.
    data: bytes = save({name: np.asarray(array, order="C") for name, array in tensors.items()}, dict(metadata))
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES:end])
    header[_METADATA] = dict(sorted(header[_METADATA].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight bytes
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + data[end:]
