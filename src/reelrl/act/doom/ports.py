"""UDP ports on which matches meet."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from reelrl.errors import GameError


def free_port() -> int:
    """A port that nobody holds now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody holds the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.bind(("", port))
        return True
    return False


def require_free(port: int) -> None:
    """Refuse a port that is taken: the engine would crash on it without a word."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except PermissionError:
            raise GameError(f"UDP port {port} is reserved by the system; choose one above 1023") from None
        except OSError:
            raise GameError(f"UDP port {port} is held by {holder(port)}; end it, or leave port out") from None


def holder(port: int) -> str:
    """Who holds a UDP port, as far as this user may know."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _holds(process, inodes):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            return f"process {process.name} ({command[:120]})"
    return "a process of another user"


def _inodes(port: int) -> set[str]:
    tables = [Path("/proc/net") / name for name in ("udp", "udp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {row[9] for row in rows if int(row[1].rpartition(":")[2], 16) == port}


def _holds(process: Path, inodes: set[str]) -> bool:
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):  # closed since
                if str(link.readlink()) in inodes:
                    return True
    return False
