"""Results that are costly to make, cached on disk: whole or not at all.

    cached(cache_dir() / "probes" / f"{key_of(facts)}.npz", make, arrays_of(Probe))

A file is the result's bytes followed by their SHA-256, so that a damaged one is noticed and made anew. Processes that
make the same result at once do the work twice and never see half a file. Where nothing can be written the first
failure is a warning, and the result is made each time.

A machine that works for another one may have a cache of its own. There `second_home` says where results are looked for
and stored besides.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from zipfile import BadZipFile

import numpy as np

from reelrl.errors import ContentError
from reelrl.storage.files import cache_dir, writable_folder, write_atomic
from reelrl.storage.regular_files import RESULT_BYTES, own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

T = TypeVar("T")

_DIGEST_BYTES = 32
# What reading bytes of another version, or somebody else's, may end in.
_FOREIGN = (ValueError, TypeError, KeyError, EOFError, OSError, BadZipFile)
_warned: set[Path] = set()  # folders that could not be written to


class ResultStore(Protocol):
    """Results by their path below the cache's folder."""

    def load(self, name: str) -> bytes | None: ...

    def store(self, name: str, data: bytes) -> None: ...


_second_home: ResultStore | None = None


@contextmanager
def second_home(results: ResultStore | None) -> Iterator[None]:
    """Results that are not cached here are looked for there; what is stored here is stored there too."""
    global _second_home
    before, _second_home = _second_home, results
    try:
        yield
    finally:
        _second_home = before


@dataclass(frozen=True)
class Format(Generic[T]):
    """How a result becomes bytes and comes back; `decode` raises one of `_FOREIGN` at foreign bytes."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def cached(path: Path, make: Callable[[], T], form: Format[T], fits: Callable[[T], bool] = lambda _: True) -> T:
    """The result stored at `path`, or else `make()`, which is then stored there. One that does not fit is replaced."""
    body = load(path)
    if body is not None:
        try:
            result = form.decode(body)
        except _FOREIGN:
            pass
        else:
            if fits(result):
                return result
    made = make()
    store(path, form.encode(made))
    return made


def key_of(facts: Any, digits: int = 32) -> str:
    """All that a result depends on, as plain data, in one name of so many hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:digits]


def load(path: Path) -> bytes | None:
    """What was stored at `path`, or None where there is nothing, a damaged file, or no regular one."""
    body = _load_here(path)
    if body is None and _second_home is not None and path.is_relative_to(cache_dir()):
        body = _second_home.load(path.relative_to(cache_dir()).as_posix())
        if body is not None:
            _store_here(path, body)
    return body


def store(path: Path, data: bytes) -> None:
    """Store `data` at `path`, if the disk allows."""
    _store_here(path, data)
    if _second_home is not None and path.is_relative_to(cache_dir()):
        _second_home.store(path.relative_to(cache_dir()).as_posix(), data)


def _load_here(path: Path) -> bytes | None:
    try:
        data = read_regular(path, RESULT_BYTES)
    except OSError:
        return None
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return body if hashlib.sha256(body).digest() == digest else None


def _store_here(path: Path, data: bytes) -> None:
    try:
        writable_folder(path.parent)
        write_atomic(own_path(path), data + hashlib.sha256(data).digest())
    except ContentError as error:
        if path.parent not in _warned:
            _warned.add(path.parent)
            warnings.warn(
                f"results are not cached in {path.parent} but computed each time: {error}", RuntimeWarning, stacklevel=4
            )


RAW: Format[bytes] = Format(bytes, bytes)


def json_of(kind: type[T]) -> Format[T]:
    """A dataclass of plain data."""
    return Format(
        lambda made: json.dumps(asdict(made)).encode(),  # type: ignore[call-overload]
        lambda body: kind(**json.loads(body)),
    )


def arrays_of(kind: type[T]) -> Format[T]:
    """A dataclass of arrays and single numbers, as `np.savez` writes them, without pickles."""

    def encode(made: T) -> bytes:
        body = io.BytesIO()
        np.savez(body, **{field.name: getattr(made, field.name) for field in fields(kind)})  # type: ignore[arg-type]
        return body.getvalue()

    def decode(body: bytes) -> T:
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            read = {name: arrays[name] for name in arrays.files}
        return kind(**{name: array if array.ndim else array.item() for name, array in read.items()})

    return Format(encode, decode)


def cached_array(path: Path, shape: tuple[int, ...], make: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """The float32 array of this shape stored at `path` as `np.save` writes it, or else `make()`, then stored there."""
    return cached(path, make, _ARRAY, lambda array: array.shape == shape and array.dtype == np.float32)


def _array_bytes(array: NDArray[np.float32]) -> bytes:
    body = io.BytesIO()
    np.save(body, array, allow_pickle=False)
    return body.getvalue()


def _array_of(body: bytes) -> NDArray[np.float32]:
    array: NDArray[np.float32] = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    return array


_ARRAY: Format[NDArray[np.float32]] = Format(_array_bytes, _array_of)
