"""Engines on this machine, and what a killed one leaves behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
FOLDER_PREFIX = "reelrl-doom-"  # then the trainer's process id
PLAYER_MODULE = "reelrl.act.doom.player_process"


def match_folder() -> Path:
    """A new folder for one match of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))


def remove_shared_memory(identity: str) -> None:
    """Remove the files of an engine that is gone or going; those that hold them open keep them."""
    for kind in ("MQCtr", "MQDoom", "SM"):
        with suppress(OSError):
            (SHARED_MEMORY / f"ViZDoom{kind}{identity}").unlink()


@dataclass(frozen=True)
class Leftovers:
    """What matches of ours left behind: nobody will use or end it any more."""

    processes: tuple[int, ...]
    shared_memory: tuple[Path, ...]
    folders: tuple[Path, ...]

    def __bool__(self) -> bool:
        return bool(self.processes or self.shared_memory or self.folders)

    def remove(self) -> None:
        for pid in self.processes:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for path in self.shared_memory:
            path.unlink(missing_ok=True)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def leftovers() -> Leftovers:
    """Players and engines whose trainer is gone, memory that nobody maps, folders of trainers that ended."""
    processes = tuple(sorted(pid for pid, trainer in _ours().items() if not _alive(trainer)))
    folders = [path for path in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*") if _mine(path)]
    return Leftovers(
        processes,
        tuple(sorted(_unused_memory(set(processes)))),
        tuple(sorted(path for path in folders if not _alive(_trainer(path.name)))),
    )


def states(group: int) -> list[str]:
    """The state letters of a group's living processes; T is one that a signal has stopped."""
    # After the command's name, which may hold anything but ends with the last bracket: state, parent, group.
    rows = [_read(pid, "stat").rpartition(")")[2].split()[:3] for pid in _processes()]
    return [row[0] for row in rows if len(row) == 3 and int(row[2]) == group and row[0] != "Z"]


def wait_for_end(group: int, seconds: float) -> None:
    """Return when a killed process group is gone, or after so many seconds."""
    until = time.monotonic() + seconds
    while states(group) and time.monotonic() < until:
        time.sleep(0.002)


def _ours() -> dict[int, int]:
    """Process id of each player and engine of ours -> that of its trainer, which their command lines hold."""
    trainers = {}
    for pid in _processes():
        command = _read(pid, "cmdline")
        trainer = _trainer(command)
        if trainer and (PLAYER_MODULE in command or "+viz_instance_id" in command or "viz_controlled" in command):
            trainers[pid] = trainer
    return trainers


def _trainer(text: str) -> int:
    match = re.search(rf"{FOLDER_PREFIX}(\d+)-", text)
    return int(match[1]) if match else 0


def _unused_memory(doomed: set[int]) -> set[Path]:
    # An engine of anybody's that still runs maps its files; names alone would not tell.
    used = "\n".join(_read(pid, "maps") for pid in _processes() if pid not in doomed)
    return {path for path in SHARED_MEMORY.glob("ViZDoom*") if _mine(path) and str(path) not in used}


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _mine(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_uid == os.getuid()
    return False
