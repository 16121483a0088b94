"""Files found by a fixed name, or by a name that stands in another file: regular, of bounded size, in their folder.

    data = read_regular(folder / "meta.json")             # no link, pipe or device, and never more than the limit
    write_atomic(own_path(folder / "meta.json"), text)    # a link there is replaced, what it points to stays
    path = inside(folder, entry["file"])                  # no "..", nothing absolute, no link that leads out

A folder may come from anybody, and another program may write to it while we read. A file that users name themselves
may be a link, a pipe or a device: that is their choice, and none of this applies.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reelrl.errors import ContentError
from reelrl.storage.files import RefusedFile

if TYPE_CHECKING:
    from io import BufferedReader

    from reelrl.errors import ReelError

DOCUMENT_BYTES = 64 << 20
"""Limit of what is parsed as a whole: settings, manifests, messages. The largest of ours have a few megabytes."""
RESULT_BYTES = 4 << 30
"""Limit of what is read into memory as a whole: features, statistics, labels."""

_SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_ADVICE = "put the file itself there"


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, *, limit: int | None = None, follow_links: bool = False
) -> int:
    """The descriptor of a regular file, or an OSError at once: nothing here waits for another process.

    A file that will be written must not be a hard link either: its other name would change with it.
    """
    # Without O_NONBLOCK, opening a pipe waits for somebody at its other end.
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise RefusedFile(error.errno, "it is a pipe or a socket", path, _ADVICE) from None
        if error.errno == errno.ELOOP:
            raise RefusedFile(error.errno, f"it is a link{_target(path)}", path, _ADVICE) from None
        raise
    try:
        _check(os.fstat(descriptor), path, limit, writing=bool(flags & (os.O_WRONLY | os.O_RDWR)))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_binary(path: str | Path, *, limit: int | None = None, follow_links: bool = False) -> BufferedReader:
    """A regular file to read from."""
    return os.fdopen(open_regular(path, limit=limit, follow_links=follow_links), "rb")


def read_regular(path: str | Path, limit: int = DOCUMENT_BYTES, *, follow_links: bool = False) -> bytes:
    """All bytes of a regular file that has no more than `limit`; OSErrors as from `open`."""
    with open_binary(path, limit=limit, follow_links=follow_links) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it grew while we read
        raise _too_large(path, len(data), limit)
    return data


def check_regular(path: str | Path, *, limit: int | None = None, follow_links: bool = False) -> None:
    """An OSError unless a regular file is there: for libraries that open files by themselves."""
    os.close(open_regular(path, limit=limit, follow_links=follow_links))


def own_path(path: str | Path) -> Path:
    """`path`, after a link, pipe or socket at that name is removed: what is written there next is a file of its own."""
    path = Path(path)
    try:
        status = path.lstat()
    except OSError:
        return path  # whoever writes will say what is wrong
    shared = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    if shared or stat.S_IFMT(status.st_mode) in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK):
        path.unlink(missing_ok=True)
    return path


def own_folder(path: Path, error: type[ReelError] = ContentError) -> Path:
    """`path`, which is refused where it is a link: what is written or removed below it would be elsewhere."""
    if path.is_symlink():
        raise error(f"{path} is a link{_target(path)}; put the folder itself there")
    return path


def inside(folder: str | Path, name: object, error: type[ReelError] = ContentError) -> Path:
    """The path of `name`, which stands in a file of this folder and must not lead out of it."""
    folder = Path(folder)
    if not isinstance(name, str) or not name or "\0" in name:
        raise error(f"{folder} lists a file named {str(name)[:60]!r}; names are text such as clips/a.mp4")
    pure = PurePosixPath(name)
    root = os.path.realpath(folder)
    if pure.is_absolute() or ".." in pure.parts or not _is_below(os.path.realpath(folder / name), root):
        raise error(f"{folder} lists {name[:200]!r}, which is outside of it; copy the file into the folder")
    return folder / name


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _check(status: os.stat_result, path: str | Path, limit: int | None, *, writing: bool) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(status.st_mode), "something special")
        raise RefusedFile(errno.EINVAL, f"it is {kind}, no regular file", path, _ADVICE)
    if writing and status.st_nlink > 1:
        raise RefusedFile(errno.EMLINK, "it is a hard link, and its other name would change with it", path, _ADVICE)
    if limit is not None and status.st_size > limit:
        raise _too_large(path, status.st_size, limit)


def _too_large(path: str | Path, size: int, limit: int) -> RefusedFile:
    return RefusedFile(errno.EFBIG, f"it has {size} bytes, the limit is {limit}", path, "replace it by a whole one")


def _target(path: str | Path) -> str:
    try:
        return f" to {Path(path).readlink()}"
    except OSError:
        return ""
