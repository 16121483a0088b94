"""Live features of one frame: ours against the same numbers in plain numpy, in CPU time on one thread.

    python benchmarks/encode_features.py

Both sides use the same optical flow of OpenCV; what differs is the work on blocks. Runs are interleaved and the best
of each counts. OpenCV is held to one thread while this runs and set back afterwards.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import cv2
import numpy as np

from reelrl.content.generated.clips import generated_clip
from reelrl.encode.codecs.settings import SUPERBLOCK
from reelrl.encode.features import FeatureExtractor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reelrl.content.frame import Frame

SIZES = {"CIF": (352, 288, 80), "1080p": (1920, 1080, 8)}
TARGET_MS = {"CIF": 1.0}
CELL = 8


@contextmanager
def one_thread() -> Iterator[None]:
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def block_sums(values: np.ndarray, size: int) -> np.ndarray:
    rows = np.add.reduceat(values, np.arange(0, values.shape[0], size), axis=0)
    return np.add.reduceat(rows, np.arange(0, values.shape[1], size), axis=1)


class NumpyExtractor:
    """The same features, vectorised over the whole picture."""

    def __init__(self, width: int, height: int) -> None:
        self.flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
        self.pixels = block_sums(np.ones((height, width)), SUPERBLOCK)
        inside_row, inside_column = np.ones((height, width)), np.ones((height, width))
        inside_row[:, ::SUPERBLOCK], inside_column[::SUPERBLOCK] = 0, 0
        self.pairs_across, self.pairs_down = block_sums(inside_row, SUPERBLOCK), block_sums(inside_column, SUPERBLOCK)
        self.cell_rows = np.arange(0, height, CELL)
        self.cell_columns = np.arange(0, width, CELL)
        self.tall = np.minimum(CELL, height - self.cell_rows)
        self.wide = np.minimum(CELL, width - self.cell_columns)
        self.previous: tuple[np.ndarray, np.ndarray] | None = None

    def extract(self, frame: Frame) -> np.ndarray:
        y = frame.y.astype(np.int32)
        half = cv2.resize(frame.y, (frame.width // 2, frame.height // 2), interpolation=cv2.INTER_AREA)
        mean = block_sums(y, SUPERBLOCK) / self.pixels
        variance = block_sums(y * y, SUPERBLOCK) / self.pixels - mean * mean
        chroma = block_sums(frame.u.astype(np.int32) + frame.v, SUPERBLOCK // 2)
        level = (mean + 4 * chroma / self.pixels) / 3
        change = np.zeros((4, *mean.shape)) if self.previous is None else self.change(y, half)
        self.previous = y, half
        rows = [mean, variance, level, self.gradient(y), *change]
        return np.stack([row.ravel() for row in rows]).astype(np.float32)

    def gradient(self, y: np.ndarray) -> np.ndarray:
        across, down = np.zeros_like(y), np.zeros_like(y)
        across[:, 1:], down[1:] = np.abs(np.diff(y, axis=1)), np.abs(np.diff(y, axis=0))
        across[:, ::SUPERBLOCK], down[::SUPERBLOCK] = 0, 0
        result: np.ndarray = block_sums(across, SUPERBLOCK) / self.pairs_across
        result += block_sums(down, SUPERBLOCK) / self.pairs_down
        return result

    def change(self, y: np.ndarray, half: np.ndarray) -> np.ndarray:
        assert self.previous is not None
        before, half_before = self.previous
        flow = self.flow.calc(half, half_before, None)
        still = np.abs(y - before)
        here, there = block_sums(still, CELL), block_sums(np.abs(y - self.moved(before, flow)), CELL)
        motion = [block_sums(flow[..., axis].astype(float), SUPERBLOCK // 2) * -8 / self.pixels for axis in (0, 1)]
        residual = block_sums(np.minimum(here, there), SUPERBLOCK // CELL) / self.pixels
        return np.stack([block_sums(still, SUPERBLOCK) / self.pixels, *motion, residual])

    def moved(self, before: np.ndarray, flow: np.ndarray) -> np.ndarray:
        """The previous frame, each cell taken from where the flow leads."""
        height, width = before.shape
        middle_rows, middle_columns = self.cell_rows // 2 + self.tall // 4, self.cell_columns // 2 + self.wide // 4
        back = np.round(2 * flow[middle_rows[:, None], middle_columns])
        rows = np.clip(self.cell_rows[:, None] + back[..., 1], 0, (height - self.tall)[:, None]).astype(int)
        columns = np.clip(self.cell_columns + back[..., 0], 0, width - self.wide).astype(int)
        shift_rows, shift_columns = rows - self.cell_rows[:, None], columns - self.cell_columns
        full = [np.repeat(np.repeat(shift, self.tall, 0), self.wide, 1) for shift in (shift_rows, shift_columns)]
        found: np.ndarray = before[np.arange(height)[:, None] + full[0], np.arange(width) + full[1]]
        return found


def cpu_ms(work: Callable[[Frame], object], frame: Frame) -> float:
    started = time.process_time()
    work(frame)
    return (time.process_time() - started) * 1000


def measure(name: str, width: int, height: int, rounds: int) -> None:
    frames = list(generated_clip("street", size=(width, height), frames=8))
    ours, plain = FeatureExtractor(width, height), NumpyExtractor(width, height)
    for frame in frames[:3]:
        np.testing.assert_allclose(ours.extract(frame), plain.extract(frame), rtol=1e-3, atol=1e-3)
    ours_ms, plain_ms = [], []
    for number in range(rounds):
        frame = frames[number % len(frames)]
        ours_ms.append(cpu_ms(ours.extract, frame))
        plain_ms.append(cpu_ms(plain.extract, frame))
    target = f"   target < {TARGET_MS[name]} ms" if name in TARGET_MS else ""
    best, numpy_best = min(ours_ms), min(plain_ms)
    print(f"{name:6} features {best:7.3f} ms/frame   numpy {numpy_best:8.3f}   {numpy_best / best:5.1f}x{target}")


def main() -> None:
    with one_thread():
        for name, (width, height, rounds) in SIZES.items():
            measure(name, width, height, rounds)


if __name__ == "__main__":
    main()
