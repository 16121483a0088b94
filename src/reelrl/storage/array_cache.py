"""Arrays that are costly to make and kept on disk (see `cache`), as `np.save` writes them, without pickles."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from reelrl.storage.cache import keep, kept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray


def cached_array(path: Path, shape: tuple[int, ...], make: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """The float32 array kept at `path`, or else `make()`, which is then kept there."""
    found = _load(path, shape)
    if found is not None:
        return found
    made = make()
    body = io.BytesIO()
    np.save(body, made, allow_pickle=False)
    keep(path, body.getvalue())
    return made


def _load(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """The array at `path`, or None where there is none, or a damaged or foreign one."""
    body = kept(path)
    if body is None:
        return None
    try:
        array: NDArray[np.float32] = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    except ValueError:
        return None
    return array if array.shape == shape and array.dtype == np.float32 else None
