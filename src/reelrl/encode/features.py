"""What the source says about each superblock before it is encoded: texture, change and motion.

frame ──► FeatureExtractor.extract ──► float32 [feature, superblock]          live, well under 1 ms for CIF
clip  ──► clip_features ─────────────► float32 [frame, feature, superblock]   computed once, then cached on disk
              either ──► analyse ────► energies, motion and scene cuts per frame

Superblocks are in raster order, which is the encoders' order; those at the edge average only the pixels they hold.
A frame without a predecessor has zero change and zero motion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numba
import numpy as np

from reelrl.content.frame import check_size
from reelrl.encode.codecs.settings import SUPERBLOCK
from reelrl.errors import ConfigError
from reelrl.storage.cache import cached_array
from reelrl.storage.files import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame, Plane

    Features = NDArray[np.float32]

FEATURES = (
    "luma_mean",  # 0 to 255
    "luma_variance",  # squared levels
    "level",  # mean absolute level of Y, Cb and Cr, each plane counting the same; 0 to 255
    "gradient",  # mean |difference| of neighbours in a row, plus the same for columns, within the superblock
    "frame_difference",  # mean |difference| to the previous frame
    "motion_x",  # luma pixels since the previous frame; content that moves right counts positive
    "motion_y",  # the same; content that moves down counts positive
    "motion_residual",  # frame difference after motion, chosen per 8x8 cell: never above frame_difference
)
"""Names of the rows, in order; the constants below are their numbers."""

LUMA_MEAN, LUMA_VARIANCE, LEVEL, GRADIENT, FRAME_DIFFERENCE, MOTION_X, MOTION_Y, MOTION_RESIDUAL = range(len(FEATURES))

VERSION = 1
"""Raise it when any number changes: what is kept on disk under another version is not used."""

_CELL = 8
# In smaller pictures OpenCV's DIS may read outside of them and crash.
_DIS_WIDTH, _DIS_HEIGHT = 96, 32
_LEAST_SPREAD = 4.0


class FeatureExtractor:
    """Features of frames that arrive one by one; remembers the previous frame.

    Motion is DIS optical flow at half resolution, measured from the new frame back, so that a vector belongs to the
    superblock where the content is now. OpenCV's thread setting is left alone: it changes no result. One extractor
    serves one stream and one thread at a time.
    """

    def __init__(self, width: int, height: int) -> None:
        check_size(width, height)
        self.width, self.height = width, height
        self.superblocks = -(-width // SUPERBLOCK) * -(-height // SUPERBLOCK)
        self._luma = np.empty((height, width), np.uint8)
        self._half, self._previous_half = (_half_buffer(width, height) for _ in range(2))
        self._flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
        self._started = False

    def extract(self, frame: Frame) -> Features:
        """Features [feature, superblock] of the next frame, in an array of its own."""
        if (frame.width, frame.height) != (self.width, self.height):
            raise ConfigError(
                f"frame is {frame.width}x{frame.height}, these features are for {self.width}x{self.height}; "
                "make another FeatureExtractor"
            )
        frame = frame.at_depth(8)  # levels are 8-bit ones, whatever the video's depth
        features = np.zeros((len(FEATURES), self.superblocks), np.float32)
        _texture(*frame.planes, features)
        self._shrink(frame.y)
        if self._started:
            # Not into a buffer of ours: DIS would take what it holds for a first guess.
            flow = self._flow.calc(self._half, self._previous_half, None)
            _change(frame.y, self._luma, flow, features)
        self._half, self._previous_half = self._previous_half, self._half
        np.copyto(self._luma, frame.y)
        self._started = True
        return features

    def reset(self) -> None:
        """Forget the previous frame: the next one starts a stream."""
        self._started = False

    def _shrink(self, luma: Plane) -> None:
        height, width = self.height // 2, self.width // 2
        half = cv2.resize(luma, (width, height), interpolation=cv2.INTER_AREA)
        below, beside = self._half.shape[0] - height, self._half.shape[1] - width
        cv2.copyMakeBorder(half, 0, below, 0, beside, cv2.BORDER_REPLICATE, dst=self._half)


def frame_features(frames: Iterable[Frame]) -> Iterator[Features]:
    """Features [feature, superblock] of each frame, all of one size."""
    extractor: FeatureExtractor | None = None
    for frame in frames:
        extractor = extractor or FeatureExtractor(frame.width, frame.height)
        yield extractor.extract(frame)


def clip_features(clip: Clip) -> Features:
    """Features [frame, feature, superblock] of a whole clip, from disk where they were computed before.

    They are cached in `cache_dir()`/features by content, size and the versions of what computes them. A folder that
    cannot be written to costs a warning and the time to compute them again.
    """
    shape = (clip.frame_count, len(FEATURES), clip.superblock_count)
    made_by = f"v{VERSION}-cv{cv2.__version__}-numba{numba.__version__}"
    path = cache_dir() / "features" / f"{clip.content_hash}-{clip.width}x{clip.height}-{made_by}.npy"
    return cached_array(path, shape, lambda: np.stack(list(frame_features(clip))))


class FrameAnalysis(NamedTuple):
    """Whole frames in a few numbers: what a first pass of an encoder would tell. One entry per frame.

    intra_energy  mean |difference| of neighbouring pixels: what a frame costs without the previous one
    inter_energy  mean |difference| to the previous frame after motion
    motion        mean length of the motion vectors in luma pixels
    scene_cut     inter energy over the spread (standard deviation) of the superblocks' own luma, 0 to 1: about 1 when
                  the previous frame says nothing about this one, below 0.5 for all motion we met; 0.7 tells them apart
    """

    intra_energy: NDArray[np.float64]
    inter_energy: NDArray[np.float64]
    motion: NDArray[np.float64]
    scene_cut: NDArray[np.float64]


def analyse(features: Features, width: int, height: int) -> FrameAnalysis:
    """Per-frame view of features [..., feature, superblock] of pictures of one size; superblocks count by area."""
    areas = superblock_areas(width, height)
    if features.shape[-2:] != (len(FEATURES), areas.size):
        raise ConfigError(
            f"features have shape {features.shape}, {width}x{height} needs [..., {len(FEATURES)}, {areas.size}]"
        )

    def over_frame(values: NDArray[Any]) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = values @ areas / (width * height)
        return mean

    rows = np.moveaxis(features, -2, 0)
    inter_energy = over_frame(rows[MOTION_RESIDUAL])
    # The least spread keeps a slow fade of an empty picture from being a cut.
    spread = np.maximum(over_frame(np.sqrt(rows[LUMA_VARIANCE])), _LEAST_SPREAD)
    return FrameAnalysis(
        intra_energy=over_frame(rows[GRADIENT] / 2),
        inter_energy=inter_energy,
        motion=over_frame(np.hypot(rows[MOTION_X], rows[MOTION_Y])),
        scene_cut=np.minimum(inter_energy / spread, 1),
    )


def superblock_areas(width: int, height: int) -> NDArray[np.float64]:
    """Pixels that each superblock holds."""
    columns = np.minimum(SUPERBLOCK, width - np.arange(0, width, SUPERBLOCK))
    rows = np.minimum(SUPERBLOCK, height - np.arange(0, height, SUPERBLOCK))
    return np.outer(rows, columns).astype(np.float64).ravel()


def _half_buffer(width: int, height: int) -> Plane:
    """Room for the picture at half resolution, and for the border that makes it large enough for DIS."""
    return np.empty((max(height // 2, _DIS_HEIGHT), max(width // 2, _DIS_WIDTH)), np.uint8)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _texture(y: Plane, u: Plane, v: Plane, features: Features) -> None:
    """Fill the rows that need one frame only. Sums are whole numbers, so no order of adding changes them."""
    block = 0
    for top in range(0, y.shape[0], SUPERBLOCK):
        bottom = min(top + SUPERBLOCK, y.shape[0])
        for left in range(0, y.shape[1], SUPERBLOCK):
            right = min(left + SUPERBLOCK, y.shape[1])
            height, width = bottom - top, right - left
            total = squares = across = down = chroma = np.int64(0)
            for row in range(top, bottom):
                line = y[row, left:right]
                for column in range(width):
                    level = np.int64(line[column])
                    total += level
                    squares += level * level
                for column in range(1, width):
                    across += abs(np.int64(line[column]) - np.int64(line[column - 1]))
                if row > top:
                    above = y[row - 1, left:right]
                    for column in range(width):
                        down += abs(np.int64(line[column]) - np.int64(above[column]))
            for row in range(top // 2, bottom // 2):
                for column in range(left // 2, right // 2):
                    chroma += np.int64(u[row, column]) + np.int64(v[row, column])
            pixels = height * width
            features[LUMA_MEAN, block] = total / pixels
            features[LUMA_VARIANCE, block] = (squares * pixels - total * total) / (pixels * pixels)
            features[LEVEL, block] = (total + 4 * chroma) / (3 * pixels)
            features[GRADIENT, block] = across / (height * (width - 1)) + down / ((height - 1) * width)
            block += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _change(y: Plane, previous: Plane, flow: Features, features: Features) -> None:
    """Fill the rows that compare with the previous frame; `flow` leads back to it, at half resolution."""
    block = 0
    for top in range(0, y.shape[0], SUPERBLOCK):
        bottom = min(top + SUPERBLOCK, y.shape[0])
        for left in range(0, y.shape[1], SUPERBLOCK):
            right = min(left + SUPERBLOCK, y.shape[1])
            still, moved = _differences(y, previous, flow, top, bottom, left, right)
            motion_x = motion_y = 0.0
            for row in range(top // 2, bottom // 2):
                for column in range(left // 2, right // 2):
                    # Minus, because flow leads back in time.
                    motion_x -= flow[row, column, 0]
                    motion_y -= flow[row, column, 1]
            pixels = (bottom - top) * (right - left)
            features[FRAME_DIFFERENCE, block] = still / pixels
            features[MOTION_RESIDUAL, block] = moved / pixels
            # A pixel of the half-resolution picture is twice as long, and there are a quarter as many.
            features[MOTION_X, block] = motion_x * 2 / (pixels / 4)
            features[MOTION_Y, block] = motion_y * 2 / (pixels / 4)
            block += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _differences(
    y: Plane, previous: Plane, flow: Features, top: int, bottom: int, left: int, right: int
) -> tuple[np.int64, np.int64]:
    """Sums of |difference| to the previous frame over one superblock: without motion, and with the better per cell."""
    still = moved = np.int64(0)
    for row in range(top, bottom, _CELL):
        height = min(_CELL, bottom - row)
        for column in range(left, right, _CELL):
            width = min(_CELL, right - column)
            here = _cell_difference(y, previous, row, column, row, column, height, width)
            back = flow[row // 2 + height // 4, column // 2 + width // 4]
            # Whole pixels, and never outside the previous frame.
            there_row = min(max(row + round(2 * back[1]), 0), y.shape[0] - height)
            there_column = min(max(column + round(2 * back[0]), 0), y.shape[1] - width)
            still += here
            moved += min(here, _cell_difference(y, previous, row, column, there_row, there_column, height, width))
    return still, moved


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _cell_difference(
    y: Plane, previous: Plane, row: int, column: int, there_row: int, there_column: int, height: int, width: int
) -> np.int64:
    total = np.int64(0)
    for down in range(height):
        new = y[row + down, column : column + width]
        old = previous[there_row + down, there_column : there_column + width]
        for across in range(width):
            total += abs(np.int64(new[across]) - np.int64(old[across]))
    return total
