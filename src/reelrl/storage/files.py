"""Writing files so that a reader never sees half of one.

    with atomic_path("clip.ivf") as temporary:     # beside clip.ivf, same suffix
        write_somehow(temporary)                   # ends well: fsync, rename; fails: removed
    write_atomic("meta.json", text)

Failures of the file system become one of our errors, `ContentError` unless the caller names another.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.errors import ContentError, ReelError

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASONS = {
    errno.ENOSPC: ("the disk is full", "free some space or choose another folder"),
    errno.EDQUOT: ("your disk quota is used up", "free some space or choose another folder"),
    errno.EFBIG: ("the file grew past the size limit", "raise `ulimit -f` or write less"),
    errno.EACCES: ("permission denied", "choose a folder you may write to"),
    errno.EPERM: ("operation not permitted", "choose a folder you may write to"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOENT: ("no such file or folder", "check the path"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "check the path"),
    errno.EISDIR: ("it is a folder", "give the name of a file"),
    errno.EEXIST: ("it already exists", "choose another name"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.EMFILE: ("too many open files", "raise `ulimit -n` or close some"),
}


class RefusedFile(OSError):
    """Something at a name of ours that we neither read nor write; see `reelrl.storage.regular_files`."""

    def __init__(self, number: int, reason: str, path: str | Path, advice: str) -> None:
        super().__init__(number, reason, os.fspath(path))
        self.advice = advice


def explain_os_error(error: OSError, path: str | Path, doing: str) -> str:
    """One sentence: what failed (`doing`, e.g. "write"), where, why, and what to do."""
    reason, advice = _REASONS.get(error.errno or 0, (error.strerror or str(error), "check the disk and the path"))
    if isinstance(error, RefusedFile):
        reason, advice = error.strerror or "", error.advice
    return f"cannot {doing} {path}: {reason}{_room(error, Path(path))}; {advice}"


@contextmanager
def atomic_path(path: str | Path, *, durable: bool = True, error: type[ReelError] = ContentError) -> Iterator[Path]:
    """A temporary path to write to, renamed onto `path` when the block ends well and removed when it fails.

    The block must close what it opens. A symbolic link is followed; a device or pipe is handed over as it is.
    A message that need not survive a power cut is not `durable`: it does not wait for the disk.
    """
    target = Path(os.path.realpath(path))
    # Looked at once: between two looks another process may have removed it, and it would pass for a device.
    mode = _mode(target)
    if stat.S_ISDIR(mode):
        raise error(f"cannot write {path}: it is a folder; give the name of a file")
    if mode and not stat.S_ISREG(mode):
        yield target
        return
    temporary = _temporary_name(target)
    try:
        yield temporary
        if durable:
            sync_file(temporary)
        temporary.replace(target)
        if durable:
            sync_folder(target.parent)
    except OSError as cause:
        if not _is_ours(cause, temporary):
            raise
        raise error(explain_os_error(cause, path, "write")) from cause
    finally:
        # Also after Ctrl+C; a successful rename has left nothing here. On a read-only disk even this fails.
        with suppress(OSError):
            temporary.unlink()


def write_atomic(
    path: str | Path, data: bytes | str, *, durable: bool = True, error: type[ReelError] = ContentError
) -> None:
    """Replace the file at `path` by `data` (text as UTF-8), all or nothing."""
    with atomic_path(path, durable=durable, error=error) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def refuse_overwriting(output: str | Path | None, *sources: str | Path) -> None:
    """Refuse to write to a file that is read, by whatever name or link; sources that are no files are passed over."""
    if output is None:
        return
    for source in sources:
        if _same_file(Path(output), Path(source)):
            raise ContentError(
                f"cannot write {output}: it is the same file as {source}, which is read; choose another name"
            )


def check_output(path: str | Path | None, *sources: str | Path) -> None:
    """Refuse now, and not when the work is done, what could not be written; the file's folder is made if absent."""
    if path is None:
        return
    if Path(path).is_dir():
        raise ContentError(f"cannot write {path}: it is a folder; give the name of a file")
    refuse_overwriting(path, *sources)
    if not Path(path).exists() or Path(path).is_file():  # a device or pipe is written to as it is
        writable_folder(Path(path).parent)


def writable_folder(path: str | Path, *, error: type[ReelError] = ContentError) -> Path:
    """The folder at `path`, made if absent, after a file could really be created in it."""
    folder = Path(path)
    absent = [each.absolute() for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _made.extend(absent)
        # os.access lies to root and on read-only mounts; only a try tells.
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as cause:
        raise error(explain_os_error(cause, path, "write to")) from cause


_made: list[Path] = []
"""Folders that `writable_folder` made, and those around them."""


def remove_empty_folders() -> None:
    """Remove the folders that this process made and put nothing in: a command that was refused leaves none."""
    for folder in sorted(_made, key=lambda each: len(each.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    _made.clear()


def cache_dir() -> Path:
    """Where features and made clips are cached: `REELRL_CACHE`, else ~/.cache/reelrl. Not created here."""
    named = os.environ.get("REELRL_CACHE")
    if named:
        return Path(named).expanduser()
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "reelrl"


def sync_file(path: Path) -> None:
    """Return once the file's bytes are on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Return once the folder's names are on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mode(path: Path) -> int:
    """What kind of thing is there; 0 where there is nothing, or none may look."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there, or is no path at all
        return False


def _temporary_name(target: Path) -> Path:
    # The suffix stays: PyAV picks the container by it and numpy would append its own.
    return target.with_name(f".{target.stem[:80]}.tmp-{os.getpid()}-{secrets.token_hex(4)}{target.suffix[:40]}")


def _is_ours(error: OSError, temporary: Path) -> bool:
    """Whether the error speaks of our file; a write to a full disk names none."""
    return error.errno is not None and (error.filename is None or os.fspath(error.filename) == os.fspath(temporary))


def _room(error: OSError, path: Path) -> str:
    if error.errno != errno.ENOSPC:
        return ""
    try:
        return f" ({shutil.disk_usage(path.absolute().parent).free} bytes left)"
    except OSError:
        return ""
