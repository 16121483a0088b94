"""One reading of a video before it is coded: how new each picture is, and by what to know it again.

clip ──► scan ──► novelty and checks per frame ──► reelrl.encode.parts.cuts

Pictures are looked at in small (about 1/8 of each side), so that the reading itself is most of the work. Stretches of
frames are read side by side; where they begin does not change the result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from reelrl.content.clip import Clip
from reelrl.encode.parts.board import TaskProgress, side_by_side
from reelrl.encode.parts.cuts import VideoPart

if TYPE_CHECKING:
    from reelrl.content.frame import Frame, Plane
    from reelrl.parallel import Executor

STRETCH = 600
"""Frames read in one piece at the most."""

_SHORT = 240  # frames that are not divided

_SHRINK = 8
_LEAST_WIDTH, _LEAST_HEIGHT = 96, 32  # in smaller pictures OpenCV's DIS may read outside of them and crash
_BLOCK = 8  # of the small picture: a superblock of the large one
_LEAST_SPREAD = 4.0


@dataclass(frozen=True, eq=False)
class Scan:
    """Per frame, in display order.

    novelty  what prediction from the frame before leaves, over what flat blocks would leave: 0.0 to 0.3 as a rule,
             up to 0.9 for violent motion, above 1.3 where the frame before says nothing about this one; 0 for the first
    checks   a number that another picture does not have
    """

    novelty: NDArray[np.float32]
    checks: NDArray[np.uint64]

    def key(self, part: VideoPart) -> str:
        """A name for the pictures of a part."""
        return hashlib.sha256(self.checks[part.first : part.end].tobytes()).hexdigest()


@dataclass(frozen=True)
class ScanTask:
    clip: Clip
    part: VideoPart
    place: TaskProgress | None = None


def scan(clip: Clip, work: Executor) -> Scan:
    """Read the whole clip once."""
    tasks = [ScanTask(clip, part) for part in stretches(clip.frame_count)]
    pieces = side_by_side(work, scan_stretch, tasks, "scan")
    return Scan(np.concatenate([novelty for novelty, _ in pieces]), np.concatenate([checks for _, checks in pieces]))


def stretches(frames: int) -> list[VideoPart]:
    """All frames in pieces of about one length, an even number of them: two who read end at the same time."""
    number = 1 if frames <= _SHORT else 2 * -(-frames // (2 * STRETCH))
    places = [frames * place // number for place in range(number + 1)]
    return [VideoPart(n, first, end - first) for n, (first, end) in enumerate(pairwise(places))]


def scan_stretch(task: ScanTask) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
    """Novelty and checks of some frames; the frame before them is read too."""
    first, count = task.part.first, task.part.frames
    frames = task.clip.frames(max(first - 1, 0))
    novelty, checks = np.zeros(count, np.float32), np.zeros(count, np.uint64)
    meter = _NoveltyMeter()
    if first:
        meter.novelty(shrunk(next(frames).y))
    own = islice(frames, count)
    for number, frame in enumerate(own if task.place is None else task.place.counted(own)):
        small = shrunk(frame.y)
        novelty[number], checks[number] = meter.novelty(small), check(frame, small)
    return novelty, checks


def shrunk(luma: Plane) -> Plane:
    """The picture in small and in 8 bits, with a border where it would be too small to look for motion in."""
    height, width = luma.shape
    size = max(width // _SHRINK, min(width, _LEAST_WIDTH)), max(height // _SHRINK, min(height, _LEAST_HEIGHT))
    small = cv2.resize(luma, size, interpolation=cv2.INTER_AREA)
    if small.dtype != np.uint8:
        small = small >> 2  # of 10 bits
    below, beside = max(_LEAST_HEIGHT - small.shape[0], 0), max(_LEAST_WIDTH - small.shape[1], 0)
    if below or beside:
        small = cv2.copyMakeBorder(small, 0, below, 0, beside, cv2.BORDER_REPLICATE)
    return np.asarray(small, np.uint8)


def check(frame: Frame, small: Plane) -> int:
    """A number for a picture: by its small version, and by the sum of all of its bytes in words of eight."""
    data = frame.data.reshape(-1).view(np.uint8)
    words = data[: data.size // 8 * 8].view(np.uint64)
    total = int(words.sum(dtype=np.uint64)) + int(data[words.size * 8 :].sum())
    digest = hashlib.sha256(small.tobytes() + total.to_bytes(9, "little")).digest()
    return int.from_bytes(digest[:8], "little")


class _NoveltyMeter:
    """Compares each small picture with the one before."""

    def __init__(self) -> None:
        self._flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
        self._before: Plane | None = None

    def novelty(self, small: Plane) -> float:
        before, self._before = self._before, small
        if before is None:
            return 0.0
        still = cv2.absdiff(small, before)
        flow = self._flow.calc(small, before, None)
        rows, columns = np.indices(small.shape, np.float32)
        moved = cv2.absdiff(
            small,
            cv2.remap(
                before, columns + flow[..., 0], rows + flow[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
            ),
        )
        # Block by block the better of both: motion of one thing must not warp what stands still beside it.
        left = np.minimum(_block_means(still), _block_means(moved)).mean()
        return float(left / max(_spread(small), _LEAST_SPREAD))


def _block_means(plane: Plane) -> NDArray[np.float32]:
    height, width = plane.shape
    size = max(width // _BLOCK, 1), max(height // _BLOCK, 1)
    return np.asarray(cv2.resize(plane.astype(np.float32), size, interpolation=cv2.INTER_AREA))


def _spread(small: Plane) -> float:
    """Mean over blocks of the mean distance from the block's mean: what is left without any prediction but flat."""
    means = cv2.resize(_block_means(small), small.shape[::-1], interpolation=cv2.INTER_NEAREST)
    return float(np.abs(small - means).mean())
