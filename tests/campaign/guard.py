"""What a trial may not do: write outside its folder, change its source, or take much memory or time."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_MIB = 512  # more than a trial's small input may cost
DEADLINE_S = 30.0  # of computing, or of waiting for something: a trial is milliseconds of work
BLOCKED_CPU_S = 0.3  # who computed less than that in all this time was waiting
LONGEST_S = 300.0  # however busy the machine is
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.rename": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.link": 2,
    "os.truncate": 1,
}


class WriteGuard:
    """Remembers every change to the file system, made from Python, that is not below an allowed folder.

    Libraries that write by themselves are not seen here; `snapshot` sees what they did.
    """

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.violations: list[str] = []
        self._on = False
        sys.addaudithook(self._hear)

    def start(self, allowed: Iterable[Path]) -> None:
        self.allowed = tuple(os.path.realpath(path) for path in allowed)
        self.violations = []
        self._on = True

    def stop(self) -> list[str]:
        self._on = False
        return self.violations

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            # With O_NOFOLLOW a link is refused, and nothing happens where it leads to.
            self._check(event, arguments[0], follow=not arguments[2] & os.O_NOFOLLOW)
        elif event in _CHANGES:
            for path in arguments[: _CHANGES[event]] if event != "os.symlink" else arguments[1:2]:
                self._check(event, path, follow=False)

    def _check(self, event: str, path: Any, *, follow: bool) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  Path would follow links
        folder, name = os.path.split(text)
        place = os.path.realpath(text) if follow else os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        if place == "/dev/null" or any(place == root or place.startswith(root + "/") for root in self.allowed):
            return
        self.violations.append(f"{event} {place}")


def snapshot(folder: Path) -> str:
    """A digest of all names and contents below a folder; links count as links."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(os.fsencode(path.relative_to(folder)))
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def forget_peak() -> int:
    """Let the kernel measure the memory peak anew; what is resident now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since `forget_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_hung(wall_s: float, cpu_s: float) -> bool:
    """Whether a trial that took so long will not end. A busy machine may take long over little work."""
    blocked = wall_s > DEADLINE_S and cpu_s < BLOCKED_CPU_S
    return blocked or cpu_s > DEADLINE_S or wall_s > LONGEST_S
