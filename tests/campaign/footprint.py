"""What a process holds, and whether it grows."""

from __future__ import annotations

import ctypes
import gc
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

_MOST_GROWTH = 0.05  # of memory over the second half; and at least so many MiB are allowed
_SLACK_MIB = 24.0


class Sample(NamedTuple):
    time_s: float
    memory_mib: float
    threads: int
    files: int
    children: int
    shared_mib: float
    shared_files: int

    def in_words(self) -> str:
        return (
            f"{self.time_s:.0f} s   {self.memory_mib:.0f} MiB   {self.threads} threads   {self.files} files   "
            f"{self.children} children   {self.shared_files} in /dev/shm, {self.shared_mib:.1f} MiB"
        )


def sample(time_s: float) -> Sample:
    """After the collector and the allocator gave back what they could, and threads that were ending have ended."""
    process = psutil.Process()
    fewest = _settled(process)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    # Of everybody on this machine: what a killed player would leave there bears nobody's name.
    sizes = [_size(path) for path in Path("/dev/shm").iterdir()]
    return Sample(
        time_s,
        process.memory_info().rss / 2**20,
        fewest,
        process.num_fds(),
        len(process.children(recursive=True)),
        sum(sizes) / 2**20,
        len(sizes),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it is gone already
        return 0


def _settled(process: psutil.Process, within_s: float = 5.0) -> int:
    """The fewest threads seen until their number stays the same for a while."""
    fewest, since_s = int(process.num_threads()), time.monotonic()
    end_s = since_s + within_s
    while time.monotonic() < end_s and time.monotonic() - since_s < 0.5:
        now = int(process.num_threads())
        if now < fewest:
            fewest, since_s = now, time.monotonic()
        time.sleep(0.05)
    return fewest


def verdicts(samples: list[Sample]) -> tuple[list[str], list[str]]:
    """A line for each thing that is held, from the second half of the samples; and the names of those that grow."""
    half = samples[len(samples) // 2 :]
    hours = np.array([each.time_s for each in half]) / 3600
    lines, growing = [], []
    for name in Sample._fields[1:]:
        values = np.array([getattr(each, name) for each in half], np.float64)
        slope = float(np.polyfit(hours, values, 1)[0]) if len(half) > 1 else 0.0
        grown = slope * float(hours[-1] - hours[0])
        if name != "memory_mib":
            # Counts flicker, as connections and threads take a moment to end; what leaks raises the least of them.
            third = max(1, len(values) // 3)
            grown = float(values[-third:].min() - values[:third].min())
        grows = grown > (max(_SLACK_MIB, _MOST_GROWTH * float(values.mean())) if name == "memory_mib" else 0.0)
        growing += [name] * grows
        lines.append(
            f"{name:<13} {values[0]:>8.1f} to {values[-1]:>8.1f}   slope {slope:>+9.2f} an hour   "
            f"{'GROWS' if grows else 'flat'}"
        )
    return lines, growing
