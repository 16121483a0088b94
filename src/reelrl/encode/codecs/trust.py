"""A library is tried once before it is used.

Our declarations of a library's structures fit the builds we know. Another build may fit as well, or may give wrong
numbers without a word. So the first session on a build runs the self-test, a tenth of a second; the verdict is kept
on disk under the library's path, size and time.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from reelrl import __version__, names
from reelrl.encode.codecs.backends import capabilities
from reelrl.errors import EncoderMissing
from reelrl.storage.cache import load, store
from reelrl.storage.files import cache_dir

_lock = threading.RLock()
_trusted: set[str] = set()
_on_trial: set[str] = set()


def ensure(backend: str) -> None:
    """Raise EncoderMissing, with what was found, when the library of a backend of ours fails its self-test."""
    if backend in _trusted or backend not in names.BACKENDS:  # a backend of the user's own is the user's to try
        return
    with _lock:
        # Other threads wait for the verdict; who holds the lock and comes here again is a session of the self-test.
        if backend in _trusted or backend in _on_trial:
            return
        _on_trial.add(backend)
        try:
            _try_once(backend)
            _trusted.add(backend)
        finally:
            _on_trial.discard(backend)


def _try_once(backend: str) -> None:
    library = capabilities(backend).library
    mark = cache_dir() / "trusted" / _name(backend, library)
    if load(mark) is not None:
        return
    from reelrl.encode.codecs import selftest  # it uses sessions, and sessions use this

    verdict = selftest.run(backend)
    if not verdict.ok:
        raise EncoderMissing(
            f"{library} is not the encoder it seems: {verdict.detail}; install the versions in constraints.txt"
        )
    store(mark, verdict.detail.encode())


def _name(backend: str, library: str) -> str:
    facts = Path(library).stat()
    build = f"{backend} {library} {facts.st_size} {facts.st_mtime_ns} {__version__}"
    return hashlib.sha256(build.encode()).hexdigest()[:32]
