"""What sessions take they give back, and they read nothing that is not theirs."""

from __future__ import annotations

import ctypes
import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.scheduling import thread_classes
from tests.encode.makers import (
    BACKENDS,
    STRUCTURES,
    open_files,
    random_decisions,
    run_python,
    scene,
    settings_for,
    thread_count,
    threads_fall_to,
)

MIB = 1 << 20


def resident_bytes() -> int:
    """Memory of this process after the allocator gave back what it could."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def abort_session(backend: str, structure: str, number: int) -> None:
    """Open a session, send some frames, take packets or not, and close it in mid-stream."""
    clip = scene("street", 9, (64, 64) if number % 4 or backend == "aom" else (128, 96))
    decisions = random_decisions(9, clip.superblock_count, number)
    settings = settings_for(clip, backend, structure, picture_qp=True, preset=12, recon=number % 3 != 0)
    with EncoderSession(settings) as session:
        for frame, decision in zip(clip.window(0, 1 + number % 7), decisions, strict=False):
            session.send(frame, **decision)
            if number % 2:
                session.receive()


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_two_hundred_aborted_sessions_leave_nothing_behind(backend: str, structure: str) -> None:
    for number in range(100):
        abort_session(backend, structure, number)
    threads, files, memory = thread_count(), open_files(), resident_bytes()
    for number in range(100):
        abort_session(backend, structure, number)
    assert resident_bytes() - memory < 8 * MIB
    assert threads_fall_to(threads)
    assert open_files() <= files
    assert {policy for policy, _ in thread_classes().values()} == {os.SCHED_OTHER}


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_memory_stays_flat_over_two_thousand_frames(backend: str, structure: str) -> None:
    clip = scene("street", 20, (64, 64))
    decisions = random_decisions(20, 1)
    frames = list(clip)
    settings = settings_for(clip, backend, structure, picture_qp=True, preset=12)
    with EncoderSession(settings) as session:

        def send(count: int) -> None:
            for number in range(count):
                session.send(frames[number % 20], **decisions[number % 20])
                session.receive()

        send(700)
        memory = resident_bytes()
        send(1300)
        assert resident_bytes() - memory < 3 * MIB


@pytest.mark.parametrize("backend", BACKENDS)
def test_refused_sessions_leave_nothing_behind(backend: str) -> None:
    settings = settings_for(scene("street", 1), backend, options={"nonsense": "1"})

    def fail() -> None:
        with pytest.raises(Exception, match="nonsense"):
            EncoderSession(settings)

    for _ in range(20):
        fail()
    threads, files, memory = thread_count(), open_files(), resident_bytes()
    for _ in range(100):
        fail()
    # The last one's exception may still hold its statistics, 5 MB; a hundred of them would be 500.
    assert resident_bytes() - memory < 12 * MIB
    assert threads_fall_to(threads)
    assert open_files() <= files


SIZES = (((64, 64), 10), ((130, 98), 12), ((66, 50), 8))
SMALL = (((64, 64), 10), ((126, 144), 13), ((160, 96), 9), ((128, 128), 10))
VBR = {"rate_control": "vbr", "target_kbps": 100.0, "keyint": 30, "first_pass": True}


@pytest.mark.parametrize(
    ("backend", "structure", "sizes", "mode"),
    [
        *((*pair, SIZES, {}) for pair in STRUCTURES),
        ("svtav1", "random_access", SMALL, VBR),
        ("aom", "low_delay", SMALL, VBR),
    ],
)
def test_encoders_read_nothing_outside_a_frame(backend: str, structure: str, sizes: Any, mode: dict[str, Any]) -> None:
    # SVT-AV1's first pass did: it halves small pictures as if they were larger, and sometimes crashed.
    jobs = [{"backend": backend, "structure": structure, "size": size, "preset": p} | mode for size, p in sizes]
    done = run_python(f"from tests.faults.guarded import main; main({json.dumps(jobs)!r})")
    assert (done.returncode, len(done.stdout.split())) == (0, len(jobs)), done.stderr
