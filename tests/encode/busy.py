"""Programs that keep a machine busy and sessions that must not mind."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.encode.makers import bytes_of, coded, scene, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many programs that want a core each."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def stream_of(backend: str, structure: str = "low_delay", preset: int = 12, frames: int = 30) -> bytes:
    """A stream that depends on its arguments only; also run by spawned processes."""
    clip = scene("street", frames)
    return bytes_of(coded(clip, settings_for(clip, backend, structure, preset=preset)))


def streams_in_threads(sessions: int, threads: int, preset: int) -> set[bytes]:
    """The different streams that many low-delay sessions of SVT-AV1 gave; a hang ends in EncoderTimeout."""
    with ThreadPoolExecutor(threads) as pool:
        return set(pool.map(lambda _: stream_of("svtav1", preset=preset), range(sessions)))
