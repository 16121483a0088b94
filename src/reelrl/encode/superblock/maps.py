"""Superblock maps from features of the source: the low-dimensional action, and controllers that need no learning.

features [8, superblocks] ──► map_inputs ──► inputs [K, superblocks] ──► weights @ inputs ──► offsets -3..3

An input is standardised over the superblocks of its frame, so the same weights mean the same in any clip and at any
resolution: with weight 1, a superblock one standard deviation above the mean gets `STEPS` QP steps more.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from reelrl.encode import features as source
from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from reelrl.encode.codecs.settings import EncoderSettings

    Floats = NDArray[np.float32]
    Offsets = NDArray[np.int32]

MAP_FEATURES = (
    "variance",  # of luma, logarithm
    "gradient",  # difference of neighbouring pixels, logarithm
    "motion",  # length of the motion vector, logarithm
    "change",  # difference to the previous frame, logarithm
    "residual",  # difference to the previous frame after motion, logarithm
    "luma",  # mean level
    "centre",  # nearness to the middle of the picture
    "importance",  # mean weight of the pixels, where the user gave weights
    "constant",  # 1 everywhere: moves the whole frame
)
"""What a map is a weighted sum of, in order."""

LEVELS = 2 * MAX_OFFSET + 1
"""Choices per superblock."""

STEPS = 2.0
"""QP steps per standard deviation at weight 1."""

_SAME = 1e-4  # inputs that spread less than this over a frame say nothing


class _Sentinel(Enum):
    ZERO_MAP = "zero map"


ZERO_MAP: Final = _Sentinel.ZERO_MAP
"""The action that really sends a map of zeros, to see what a map costs; all-zero offsets send none."""


class MapEpisode(Protocol):
    """What a map controller may know of an episode beforehand; `SuperblockQpEnv` is one."""

    @property
    def features(self) -> Floats: ...  # [frames, 8, superblocks]

    @property
    def grid(self) -> tuple[int, int]: ...

    @property
    def weights(self) -> Floats: ...  # [frames, superblocks]

    @property
    def settings(self) -> EncoderSettings: ...


def map_inputs(features: Floats, grid: tuple[int, int], weights: Floats | None = None) -> Floats:
    """Inputs [..., K, superblocks] of features [..., 8, superblocks] and weights [..., superblocks]."""
    rows = np.moveaxis(features, -2, 0)
    motion = np.hypot(rows[source.MOTION_X], rows[source.MOTION_Y])
    logs = (rows[source.LUMA_VARIANCE], rows[source.GRADIENT], motion, rows[source.FRAME_DIFFERENCE])
    shape = motion.shape
    raw = [np.log1p(values) for values in (*logs, rows[source.MOTION_RESIDUAL])]
    raw += [rows[source.LUMA_MEAN] / 32, np.broadcast_to(_nearness(grid), shape)]
    raw.append(np.ones(shape, np.float32) if weights is None else weights)
    standard = [_standardised(values) for values in raw]
    return np.ascontiguousarray(np.stack([*standard, np.ones(shape, np.float32)], axis=-2), np.float32)


def map_of(inputs: Floats, weights: ArrayLike, reach: int = MAX_OFFSET) -> Offsets:
    """Offsets per superblock, at most `reach`, from inputs [K, superblocks] and weights [K]."""
    chosen = np.asarray(weights, np.float32)
    if chosen.shape != inputs.shape[:1]:
        raise ConfigError(f"weights have shape {chosen.shape}; give {len(MAP_FEATURES)}: {', '.join(MAP_FEATURES)}")
    if not np.isfinite(chosen).all():
        raise InvalidStateError(f"weights are {chosen}; they must be finite")
    # Summed in float64 and rounded a little down first, so that no processor's order of adding decides a step.
    steps = np.round(STEPS * (chosen.astype(np.float64) @ inputs), 4)
    return np.clip(np.rint(steps), -reach, reach).astype(np.int32)


def feature_map(
    features: Floats, weights: ArrayLike, grid: tuple[int, int], importance: Floats | None = None
) -> Offsets:
    """Offsets per superblock of one frame's features [8, superblocks]."""
    return map_of(map_inputs(features, grid, importance), weights)


def named_weights(**named: float) -> Floats:
    """Weights [K] by name; those not named are zero."""
    unknown = sorted(set(named) - set(MAP_FEATURES))
    if unknown:
        raise ConfigError(f"unknown features {', '.join(unknown)}; choose from {', '.join(MAP_FEATURES)}")
    return np.array([named.get(name, 0.0) for name in MAP_FEATURES], np.float32)


def action_of(offsets: Offsets) -> NDArray[np.int64]:
    """The environment's action for offsets: 0 stands for -3."""
    return offsets.astype(np.int64) + MAX_OFFSET


def checked_levels(action: Any, superblocks: int, timed: bool = False) -> NDArray[np.int32]:
    """Offsets of an action of 0 to 6 per superblock, and one more for the whole frame where it is timed."""
    values = _as_array(action)
    if values.shape != (superblocks + timed,):
        raise ConfigError(
            f"the action has shape {values.shape}, this clip has {superblocks} superblocks; give one entry for each"
            f"{', and one for the whole frame' if timed else ''}"
        )
    if values.dtype.kind not in "iu":
        raise ConfigError(f"the action is {values.dtype}; give whole numbers from 0 to {LEVELS - 1}")
    if values.min() < 0 or values.max() >= LEVELS:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; 0 to {LEVELS - 1} is allowed")
    offsets: NDArray[np.int32] = values.astype(np.int32) - MAX_OFFSET
    return offsets


def checked_weights(action: Any, count: int = len(MAP_FEATURES)) -> NDArray[np.float32]:
    values = _as_array(action)
    if values.shape != (count,):
        raise ConfigError(f"the action has shape {values.shape}; give {count} weights")
    if values.dtype.kind not in "iuf":
        raise ConfigError(f"the action is {values.dtype}; give numbers from -1 to 1")
    if np.abs(values).max() > 1 + 1e-6:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; -1 to 1 is allowed")
    return values.astype(np.float32)


class NoMap:
    """Leaves the encoder alone: the baseline."""

    privileged = False

    def reset(self, seed: int, episode: MapEpisode) -> None:
        """Nothing to remember."""

    def act(self, observation: Any) -> None:  # noqa: ARG002 - the protocol's
        """No map."""
        return


class ZeroMap:
    """Sends a map of zeros with every frame: what a map costs before it does anything."""

    privileged = False

    def reset(self, seed: int, episode: MapEpisode) -> None:
        """Nothing to remember."""

    def act(self, observation: Any) -> _Sentinel:  # noqa: ARG002 - the protocol's
        """The map of zeros."""
        return ZERO_MAP


class FeatureMap:
    """The same weights of features for every frame."""

    privileged = False

    def __init__(self, weights: ArrayLike) -> None:
        self.weights = np.asarray(weights, np.float32)

    def reset(self, seed: int, episode: MapEpisode) -> None:  # noqa: ARG002 - the protocol's
        """Take the clip's features."""
        self._inputs = map_inputs(episode.features, episode.grid, episode.weights)
        self._frame = 0

    def act(self, observation: Any) -> NDArray[np.int64]:  # noqa: ARG002 - the protocol's
        """The map of the next frame."""
        offsets = map_of(self._inputs[self._frame], self.weights)
        self._frame += 1
        return action_of(offsets)


class VarianceMap(FeatureMap):
    """Busy superblocks get higher QPs, flat ones lower; a negative strength turns it round."""

    def __init__(self, strength: float = 0.5) -> None:
        super().__init__(named_weights(variance=strength))


class MotionMap(FeatureMap):
    """Moving superblocks get higher QPs, still ones lower: those serve the frames to come."""

    def __init__(self, strength: float = 0.5) -> None:
        super().__init__(named_weights(motion=strength))


class RandomMap:
    """Every offset drawn alike: a sanity check that maps matter."""

    privileged = False

    def reset(self, seed: int, episode: MapEpisode) -> None:
        """Start the draws."""
        self._rng = np.random.default_rng(seed)
        self._superblocks = episode.grid[0] * episode.grid[1]

    def act(self, observation: Any) -> NDArray[np.int64]:  # noqa: ARG002 - the protocol's
        """A drawn map."""
        return self._rng.integers(0, LEVELS, self._superblocks)


def _as_array(action: Any) -> NDArray[Any]:
    try:
        values = np.asarray(action)
    except ValueError as error:  # ragged lists
        raise ConfigError(f"the action is no array: {error}") from None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidStateError(f"the action holds {values[~np.isfinite(values)].ravel()[0]}; actions are finite")
    return values


def _nearness(grid: tuple[int, int]) -> Floats:
    """1 in the middle of the picture, falling to below 0 in the corners, per superblock."""
    rows, columns = grid
    y, x = ((np.arange(count) + 0.5) * 2 / count - 1 for count in (rows, columns))
    return (1 - np.hypot(y[:, None], x[None, :])).astype(np.float32).ravel()


def _standardised(values: Floats) -> Floats:
    """Zero mean and unit deviation along the last axis; where nothing differs, zero."""
    centred = values - values.mean(-1, keepdims=True, dtype=np.float64)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True))
    standard: Floats = np.where(deviation > _SAME, centred / np.maximum(deviation, _SAME), 0).astype(np.float32)
    return standard
