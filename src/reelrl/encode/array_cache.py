"""Arrays that are costly to make and kept on disk: whole or not at all, without pickles.

A file is what `np.save` writes, then the SHA-256 of that: `np.load` reads it, and a damaged one is made anew.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from reelrl.errors import ContentError
from reelrl.files import writable_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

_DIGEST_BYTES = 32
_warned: set[Path] = set()  # folders that could not be written to


def cached_array(path: Path, shape: tuple[int, ...], make: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """The float32 array kept at `path`, or else `make()`, which is then kept there.

    Processes that make the same array at once do the work twice and never see half a file. Where nothing can be
    written the first failure is a warning, and the array is made each time.
    """
    found = _load(path, shape)
    if found is not None:
        return found
    made = make()
    try:
        writable_folder(path.parent)
        write_atomic(path, _pack(made))
    except ContentError as error:
        _warn_once(path.parent, error)
    return made


def _load(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """The array at `path`, or None where there is none, or a damaged or foreign one."""
    try:
        data = memoryview(path.read_bytes())
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            return None
        array: NDArray[np.float32] = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    except (OSError, ValueError):
        return None
    return array if array.shape == shape and array.dtype == np.float32 else None


def _pack(array: NDArray[np.float32]) -> bytes:
    body = io.BytesIO()
    np.save(body, array, allow_pickle=False)
    return body.getvalue() + hashlib.sha256(body.getbuffer()).digest()


def _warn_once(folder: Path, error: ContentError) -> None:
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(f"results are not kept in {folder} but computed each time: {error}", RuntimeWarning, stacklevel=4)
