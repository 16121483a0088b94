"""Results that are costly to make and kept on disk: whole or not at all.

A file is the result's bytes followed by their SHA-256, so that a damaged one is noticed and made anew. Processes that
make the same result at once do the work twice and never see half a file. Where nothing can be written the first
failure is a warning, and the result is made each time.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING

from reelrl.errors import ContentError
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import RESULT_BYTES, own_path, read_regular

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST_BYTES = 32
_warned: set[Path] = set()  # folders that could not be written to


def kept(path: Path) -> bytes | None:
    """What was kept at `path`, or None where there is nothing, a damaged file, or no regular one."""
    try:
        data = read_regular(path, RESULT_BYTES)
    except OSError:
        return None
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return body if hashlib.sha256(body).digest() == digest else None


def keep(path: Path, data: bytes) -> None:
    """Keep `data` at `path`, if the disk allows."""
    try:
        writable_folder(path.parent)
        write_atomic(own_path(path), data + hashlib.sha256(data).digest())
    except ContentError as error:
        if path.parent not in _warned:
            _warned.add(path.parent)
            warnings.warn(
                f"results are not kept in {path.parent} but computed each time: {error}", RuntimeWarning, stacklevel=3
            )
