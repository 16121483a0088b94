"""A program for its own process: does one thing with sessions a hundred times and again, and tells what grew.

In the process of all tests memory comes and goes for other reasons, by more than a session takes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.codecs.scheduling import thread_classes
from tests.encode.makers import open_files, random_decisions, scene, settings_for, thread_count, threads_fall_to

if TYPE_CHECKING:
    from collections.abc import Callable


def resident_bytes() -> int:
    """Memory of this process after the allocator gave back what it could."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def aborted(backend: str, structure: str, sessions: int) -> None:
    """Sessions that get some frames, whose packets are taken or not, and that are closed in mid-stream."""

    def abort(number: int) -> None:
        clip = scene("street", 9, (64, 64) if number % 4 or backend == "aom" else (128, 96))
        decisions = random_decisions(9, clip.superblock_count, number)
        settings = settings_for(clip, backend, structure, picture_qp=True, preset=12, recon=number % 3 != 0)
        with EncoderSession(settings) as session:
            for frame, decision in zip(clip.window(0, 1 + number % 7), decisions, strict=False):
                session.send(frame, **decision)
                if number % 2:
                    session.receive()

    _tell_growth(abort, sessions // 2, sessions // 2)


def refused(backend: str) -> None:
    """Sessions that never open."""
    settings = settings_for(scene("street", 1), backend, options={"nonsense": "1"})

    def refuse(number: int) -> None:
        del number
        with pytest.raises(Exception, match="nonsense"):
            EncoderSession(settings)

    # A dozen sessions' statistics may stay with the allocator for a while: what is lost stays in every round.
    _tell_growth(refuse, 20, 100, rounds=4)


def long_stream(backend: str, structure: str, count: int) -> None:
    """One session that codes so many frames."""
    frames = list(scene("street", 20, (64, 64)))
    decisions = random_decisions(20, 1)
    settings = settings_for(scene("street", 20, (64, 64)), backend, structure, picture_qp=True, preset=12)
    with EncoderSession(settings) as session:

        def send(number: int) -> None:
            session.send(frames[number % 20], **decisions[number % 20])
            session.receive()

        _tell_growth(send, count // 3, count - count // 3)


def _tell_growth(act: Callable[[int], None], first: int, then: int, rounds: int = 1) -> None:
    for number in range(first):
        act(number)
    threads, files, memory = thread_count(), open_files(), resident_bytes()
    after = []
    for _ in range(rounds):
        for number in range(then):
            act(number)
        after.append(resident_bytes())
    grown = {
        "mib": (min(after) - memory) / (1 << 20),
        "threads": 0 if threads_fall_to(threads) else thread_count() - threads,
        "files": max(0, open_files() - files),
        "other_classes": len({policy for policy, _ in thread_classes().values()} - {os.SCHED_OTHER}),
    }
    sys.stdout.write(json.dumps(grown))
