"""The processes of one match's players: given orders together, answering together, ended together.

Whoever dies or hangs is named, and takes the others along: an engine that lost a peer never comes back.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.act.doom import engines
from reelrl.act.doom.player_process import FAILED, Part
from reelrl.errors import GameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.act.doom.shared_memory import MatchMemory

_LAST_WORDS = 600
_GRACE_S = 5.0  # for killed engines to be gone: some milliseconds on an idle machine


class PlayerGroup:
    """One process per part, in the order of `parts`; `numbers` are the players they turn out to be."""

    def __init__(self, parts: Sequence[Part], memory: MatchMemory, start_order: Sequence[int]) -> None:
        self.numbers = list(range(len(parts)))
        self._match, self._matches = parts[0].match, parts[0].matches
        self._folders = [Path(part.folder) / f"player_{part.player}" for part in parts]
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._sockets: dict[int, socket.socket] = {}
        # Also when nobody calls end(): at the latest when Python ends.
        self.end = weakref.finalize(self, _end, os.getpid(), self._match, self._children, self._sockets, memory)
        mates = _star(len(parts))
        try:
            for index in start_order:
                self._start(index, parts[index], memory, mates[index])
        except BaseException:
            self.end()
            raise
        finally:
            for end in chain(*mates):
                end.close()
        self._answers = select.poll()
        for end in self._sockets.values():
            self._answers.register(end, select.POLLIN)
        self._indices = {end.fileno(): index for index, end in self._sockets.items()}

    @property
    def pids(self) -> list[int]:
        """Process ids in the order of `parts`; each is also the id of a process group with the player's engine."""
        return [self._children[index].pid for index in sorted(self._children)]

    def send(self, orders: Sequence[bytes]) -> None:
        """Give every player its order; what they answer is for `receive`."""
        if not self.end.alive:
            raise GameError(f"{self._where}the match has ended; start another with reset()")
        try:
            for index, order in enumerate(orders):
                try:
                    self._sockets[index].send(order)
                except OSError:
                    raise self._lost(index) from None
        except BaseException:
            # Somebody is gone, or an answer is still to come that would be taken for the next one's.
            self.end()
            raise

    def receive(self, deadline_s: float) -> set[bytes]:
        """One answer from every player, in whatever order they come."""
        answers = set()
        waiting = set(self._sockets)
        until = time.monotonic() + deadline_s
        try:
            while waiting:
                events = self._answers.poll(max(0.0, until - time.monotonic()) * 1000)
                if not events:
                    raise self._stuck(sorted(waiting), deadline_s)
                for descriptor, _ in events:
                    index = self._indices[descriptor]
                    answer = self._receive(index)
                    if answer in (b"", FAILED):
                        raise self._lost(index, answer)
                    waiting.discard(index)
                    answers.add(answer)
        except BaseException:
            self.end()
            raise
        return answers

    def _receive(self, index: int) -> bytes:
        try:
            return self._sockets[index].recv(1)
        except OSError:
            return b""

    @property
    def _where(self) -> str:
        """Which of several matches this is."""
        return f"match {self._match}: " if self._matches > 1 else ""

    def _start(self, index: int, part: Part, memory: MatchMemory, mates: list[socket.socket]) -> None:
        folder = self._folders[index]
        folder.mkdir(exist_ok=True)
        ours, theirs = socket.socketpair()
        self._sockets[index] = ours
        command = [sys.executable, "-m", engines.PLAYER_MODULE]
        mate_fds = [end.fileno() for end in mates]
        command += [str(theirs.fileno()), str(memory.descriptor), json.dumps(mate_fds), json.dumps(part._asdict())]
        with theirs, (folder / "log.txt").open("wb") as log:
            # A process group of its own: Ctrl+C is for the trainer, and one kill reaches player and engine. But no
            # session: Linux divides the processor by sessions, and on a busy machine that made players half as fast.
            self._children[index] = subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
                pass_fds=[theirs.fileno(), memory.descriptor, *mate_fds],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def _lost(self, index: int, answer: bytes = b"") -> GameError:
        words = _rest(self._sockets[index]) if answer == FAILED else _tail(self._folders[index] / "log.txt")
        child = self._children[index]
        self.end()
        code = child.returncode
        how = "failed" if answer == FAILED else f"died ({_how(code)})"
        who = f"{self._where}player_{self.numbers[index]}"
        return GameError(f"{who} {how}; reset() starts another match\n{words}".rstrip())

    def _stuck(self, waiting: list[int], deadline_s: float) -> GameError:
        # Everybody waits for whoever is stuck. A stopped process is surely the one; else all are named.
        stopped = [index for index in waiting if _is_stopped(self._children[index].pid)]
        names = " and ".join(f"player_{self.numbers[index]}" for index in stopped or waiting)
        state = "stopped by a signal, and " if stopped else ""
        self.end()
        return GameError(f"{self._where}{names}: {state}no answer for {deadline_s:g} s; reset() starts another match")


def _star(players: int) -> list[list[socket.socket]]:
    """Of each player, its ends of the connections with its mates: the first has one with everybody, the others one."""
    pairs = [socket.socketpair() for _ in range(players - 1)]
    return [[first for first, _ in pairs], *([other] for _, other in pairs)]


def _end(
    owner: int,
    match: int,
    children: dict[int, subprocess.Popen[bytes]],
    sockets: dict[int, socket.socket],
    memory: MatchMemory,
) -> None:
    """Kill players and engines, and remove the engines' files."""
    is_owner = os.getpid() == owner  # and not a fork's
    for child in children.values() if is_owner else ():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    # Not before the kill: a player that finds its match gone removes the folder, which another try may need.
    for end in sockets.values():
        end.close()
    for index, child in children.items() if is_owner else ():
        child.wait()
        engines.wait_for_end(child.pid, _GRACE_S)
        engines.remove_shared_memory(memory.engine_id(match, index))


def _how(code: int | None) -> str:
    return f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"


def _rest(end: socket.socket) -> str:
    """What a failing player says before it closes its side."""
    end.settimeout(2)
    text = b""
    with suppress(OSError):
        while piece := end.recv(4096):
            text += piece
    return text.decode(errors="replace")


def _tail(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[-_LAST_WORDS:]
    except OSError:
        return ""


def _is_stopped(group: int) -> bool:
    return any(state == "T" for state in engines.states(group))
