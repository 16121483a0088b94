"""What `reel demo` measures: both encoders over several QPs, and a map that favours what moves, at the same size.

clip ──► find_motion ──► moving superblocks ──► offsets ──► measure ──► Trial per encoder ──► demo_page
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelrl.content.clip import SUPERBLOCK_SIZE
from reelrl.content.quality import psnr_from_sse
from reelrl.encode import Encoded, EncoderSettings, capabilities, encode_clip, features
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from reelrl.content import Clip, Frame
    from reelrl.encode.codecs.whole_clip import Decision

Blocks = NDArray[np.bool_]
Report = Callable[[str, int], None]
"""Called with the encoder's name and how many frames it has coded since."""

QPS, COMPARED_QP, PRESET = (22, 30, 38, 46, 54), 46, 8
MOVING_SHARE = 1 / 8
FAVOUR, REST = -3, 3
"""QP steps for superblocks that move, and for all others."""

TRIES, CLOSE_ENOUGH = 6, 0.003
"""Encodes that may be spent on meeting the size without a map, and the relative difference that ends the search."""

ENCODES = len(QPS) + 1 + TRIES
"""Per encoder, at most."""

NAMES = {"aom": "libaom", "svtav1": "SVT-AV1"}


@dataclass(frozen=True)
class Motion:
    """Speed against the camera in pixels per frame, and which superblocks move; both [frame, superblock]."""

    speed: NDArray[np.float32]
    moving: Blocks

    @property
    def offsets(self) -> NDArray[np.int32]:
        """The map, in QP steps."""
        return np.where(self.moving, FAVOUR, REST).astype(np.int32)


class Quality(NamedTuple):
    """Luma PSNR in dB, of the mean squared error over all frames."""

    moving: float
    elsewhere: float
    whole: float


@dataclass(frozen=True)
class Way:
    """The clip coded one way; `qp` is the base quantiser, on average."""

    coded: Encoded
    qp: float

    @cached_property
    def sse(self) -> NDArray[np.int64]:
        """Sum of squared luma errors [frame, superblock]."""
        pairs = zip(self.coded.packets, self.coded.clip, strict=True)
        return np.stack([block_sums((_luma(packet.recon) - frame.y) ** 2) for packet, frame in pairs])

    def psnr(self, blocks: Blocks) -> float:
        """Luma PSNR of the chosen superblocks [frame, superblock]."""
        clip = self.coded.clip
        pixels = np.broadcast_to(block_sums(np.ones((clip.height, clip.width), np.int64)), blocks.shape)
        return psnr_from_sse(int(self.sse[blocks].sum()), int(pixels[blocks].sum()))

    def quality(self, moving: Blocks) -> Quality:
        return Quality(*(self.psnr(blocks) for blocks in (moving, ~moving, np.ones_like(moving))))


@dataclass(frozen=True)
class Trial:
    """One encoder on one clip: its curve, and the same clip without a map, with a map of zeros, and with ours."""

    backend: str
    version: str
    curve: tuple[Encoded, ...]
    plain: Way
    zero: Way
    mapped: Way

    @property
    def name(self) -> str:
        return NAMES[self.backend]

    def growth(self, way: Way) -> float:
        """Bytes against those without a map, in percent."""
        return 100 * (way.coded.size_bytes / self.plain.coded.size_bytes - 1)

    def change(self, moving: Blocks) -> Quality:
        """What the map did to the quality, in dB."""
        before, after = self.plain.quality(moving), self.mapped.quality(moving)
        return Quality(*(new - old for old, new in zip(before, after, strict=True)))

    def record(self, moving: Blocks) -> dict[str, Any]:
        """The figures for programs."""
        ways = {"plain": self.plain, "zero": self.zero, "mapped": self.mapped}
        return {
            "backend": self.backend,
            "version": self.version,
            "points": [{"qp": c.settings.qp, "kbps": c.kbps, "psnr_y": c.psnr_y} for c in self.curve],
            **{
                name: {"qp": way.qp, "bytes": way.coded.size_bytes, "psnr_y": way.quality(moving)._asdict()}
                for name, way in ways.items()
            },
        }


def find_motion(clip: Clip, share: float = MOVING_SHARE) -> Motion:
    """The `share` of a clip's superblocks that move fastest against the camera.

    The camera's motion is the median of a frame's vectors. The first frame has none and borrows those of the second.
    """
    vectors = features.clip_features(clip)[:, [features.MOTION_X, features.MOTION_Y]]
    against_camera = vectors - np.median(vectors, axis=2, keepdims=True)
    speed = np.hypot(against_camera[:, 0], against_camera[:, 1])
    speed[0] = speed[min(1, clip.frame_count - 1)]
    moving = speed > np.quantile(speed, 1 - share)
    if not moving.any():
        raise ContentError(f"nothing moves in {clip.name}, {clip.frame_count} frames; choose a longer or livelier clip")
    return Motion(speed, moving)


def measure(backend: str, clip: Clip, motion: Motion, report: Report = lambda _name, _frames: None) -> Trial:
    """All encodes of one backend."""
    coded_frames = 0

    def encode(qp: int, decide: Callable[[int], Decision] = lambda _: {}) -> Encoded:
        def counted(number: int, _frame: Frame) -> Decision:
            nonlocal coded_frames
            coded_frames += 1
            report(NAMES[backend], 1)
            return decide(number)

        settings = EncoderSettings(backend=backend, qp=qp, preset=PRESET, recon=qp == COMPARED_QP)
        return encode_clip(clip, settings, counted)

    def with_map(qp: float) -> Encoded:
        return encode(COMPARED_QP, lambda i: {"offsets": motion.offsets[i], "base_qp": qp_of_frame(qp, i)})

    curve = tuple(encode(qp) for qp in QPS)
    plain = Way(curve[QPS.index(COMPARED_QP)], COMPARED_QP)
    zeros = np.zeros(clip.superblock_count, np.int32)
    zero = Way(encode(COMPARED_QP, lambda _: {"offsets": zeros}), COMPARED_QP)
    mapped = matched(with_map, plain.coded.size_bytes, COMPARED_QP)
    report(NAMES[backend], ENCODES * clip.frame_count - coded_frames)  # tries that were not needed
    return Trial(backend, capabilities(backend).version, curve, plain, zero, mapped)


def qp_of_frame(average: float, number: int) -> int:
    """Whole QPs that take turns so that their mean is `average`."""
    return math.floor(average * (number + 1)) - math.floor(average * number)


def matched(encode: Callable[[float], Encoded], target_bytes: int, start_qp: float) -> Way:
    """The encode whose size is nearest to `target_bytes`, searched over its average QP in steps of an eighth."""
    misses: dict[float, float] = {}  # log(size / target); the encodes themselves would fill the memory
    qp = float(start_qp)
    best = Way(encode(qp), qp)
    misses[qp] = _miss(best, target_bytes)
    while len(misses) < TRIES and abs(misses[best.qp]) > CLOSE_ENOUGH:
        qp = next_qp(misses)
        if qp in misses:
            break
        way = Way(encode(qp), qp)
        misses[qp] = _miss(way, target_bytes)
        best = min(best, way, key=lambda tried: abs(misses[tried.qp]))
    return best


def _miss(way: Way, target_bytes: int) -> float:
    return math.log(way.coded.size_bytes / target_bytes)


def next_qp(misses: dict[float, float]) -> float:
    """Where the size should meet the target, by a line through two tries: one on either side, else the nearest two.

    `misses` holds log(size / target) by QP.
    """
    too_large = [qp for qp, miss in misses.items() if miss > 0]
    small_enough = [qp for qp, miss in misses.items() if miss <= 0]
    a, *others = sorted(misses, key=lambda qp: abs(misses[qp]))
    if too_large and small_enough:
        a, others = max(too_large), [min(small_enough)]
    slope = -0.1  # a QP step changes the size by about a tenth
    if others and misses[a] != misses[others[0]]:
        slope = (misses[a] - misses[others[0]]) / (a - others[0])
    return min(max(round(8 * (a - misses[a] / slope)) / 8, 1.0), 63.0)


def block_sums(plane: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum over each superblock, in raster order."""
    tops, lefts = (np.arange(0, side, SUPERBLOCK_SIZE) for side in plane.shape)
    sums: NDArray[np.int64] = np.add.reduceat(np.add.reduceat(plane, tops, axis=0), lefts, axis=1)
    return sums.reshape(-1)


def _luma(recon: Frame | None) -> NDArray[np.int64]:
    if recon is None:
        raise ValueError("quality by superblock needs the reconstruction; encode with recon=True")
    return recon.y.astype(np.int64)
