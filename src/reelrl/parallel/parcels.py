"""Tasks packed for other machines, so that what several of them share travels once.

Arrays (the frames of a clip) go into Ray's object store apart from the task that holds them: tasks that hold the same
arrays share one object, which a node fetches once and all its workers map. A file that a node does not have
(`TravellingFile`) is sent when the node first asks for it (`FileWanted`), and stays in the node's cache.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.storage.files import atomic_path, cache_dir
from reelrl.storage.travelling_file import TravellingFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SHARED_BYTES = 64 << 10
"""Arrays that are smaller, all of a task's together, stay inside the task."""
CHUNK_BYTES = 32 << 20

Key = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SentFile:
    """A file in the object store: references to its pieces, in order."""

    digest: str
    chunks: tuple[Any, ...]


@dataclass(frozen=True)
class Parcel:
    """A task as it travels: `body` without the arrays, which `arrays` refers to, and the files sent so far."""

    body: bytes
    arrays: Any
    files: dict[str, SentFile]
    key: Key = ()


class FileWanted(Exception):
    """A node lacks a file that its task reads."""


@dataclass
class _SharedArrays:
    reference: Any
    buffers: list[pickle.PickleBuffer]  # held, so that their addresses stay theirs
    users: int = 0


@dataclass
class Sender:
    """Packs tasks; `put` stores an object where nodes can fetch it, and returns a reference."""

    put: Callable[[Any], Any]
    _shared: dict[Key, _SharedArrays] = field(default_factory=dict)
    _files: dict[str, SentFile] = field(default_factory=dict)

    def pack(self, function: Callable[[Any], Any], task: Any) -> Parcel:
        """Raises what the task's own pickling raises, and what `put` raises at a full store."""
        buffers: list[pickle.PickleBuffer] = []
        body, paths = _packed(function, task, buffers)
        files = {path: self._files[path] for path in paths if path in self._files}
        if sum(buffer.raw().nbytes for buffer in buffers) < SHARED_BYTES:
            return Parcel(_packed(function, task, None)[0] if buffers else body, None, files)
        arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        key = tuple((array.ctypes.data, array.nbytes) for array in arrays)
        if key not in self._shared:
            self._forget_unused()
            self._shared[key] = _SharedArrays(self.put(arrays), buffers)
        self._shared[key].users += 1
        return Parcel(body, self._shared[key].reference, files, key)

    def release(self, parcel: Parcel) -> None:
        """The task is over. Its arrays stay until others are packed: the next task mostly wants the same."""
        if parcel.key in self._shared:
            self._shared[parcel.key].users -= 1

    def send_file(self, path: str) -> None:
        """Put a file into the store, for all tasks that are packed from now on."""
        if path in self._files:
            return
        digest, chunks = hashlib.sha256(), []
        with open(path, "rb") as file:  # noqa: PTH123 - a str
            while piece := file.read(CHUNK_BYTES):
                digest.update(piece)
                chunks.append(self.put(piece))
        self._files[path] = SentFile(digest.hexdigest(), tuple(chunks))

    def _forget_unused(self) -> None:
        self._shared = {key: shared for key, shared in self._shared.items() if shared.users}


def unpacked(
    body: bytes,
    arrays: Sequence[NDArray[np.uint8]] | None,
    files: dict[str, SentFile],
    get: Callable[[Any], bytes],
) -> Any:
    """(function, task) on the node that does it; raises FileWanted where a file has to be sent first."""
    unpickler = _Unpacker(io.BytesIO(body), buffers=arrays)
    unpickler.files, unpickler.get = files, get
    return unpickler.load()


def _packed(
    function: Callable[[Any], Any], task: Any, buffers: list[pickle.PickleBuffer] | None
) -> tuple[bytes, list[str]]:
    body = io.BytesIO()
    packer = _Packer(body, 5, buffer_callback=None if buffers is None else buffers.append)
    packer.paths = []
    packer.dump((function, task))
    return body.getvalue(), packer.paths


class _Packer(pickle.Pickler):
    paths: list[str]

    def persistent_id(self, value: Any) -> tuple[str, tuple[int, int]] | None:
        if type(value) is not TravellingFile:
            return None
        self.paths.append(str(value))
        return str(value), value.state


class _Unpacker(pickle.Unpickler):
    files: dict[str, SentFile]
    get: Callable[[Any], bytes]

    def persistent_load(self, identity: tuple[str, tuple[int, int]]) -> TravellingFile:
        path, state = identity
        file = TravellingFile(path)
        if file.is_here(state):
            return file
        if path not in self.files:
            raise FileWanted(path)
        return TravellingFile(_received(Path(path), self.files[path], self.get))


def _received(path: Path, sent: SentFile, get: Callable[[Any], bytes]) -> Path:
    """The node's own copy. Two workers that want it at once write it twice, each whole."""
    target = cache_dir() / "files" / f"{sent.digest}{path.suffix}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target) as temporary, temporary.open("wb") as file:
            for chunk in sent.chunks:
                file.write(get(chunk))
    return target
