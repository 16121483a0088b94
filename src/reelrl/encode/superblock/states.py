"""Observations of the superblock environment, built by swappable states.

    class Mine(AbstractState):
        def get_observation(self, frame, sbs, frame_type, picture_number):
            return np.array([sb["sb_x_mv"] for sb in sbs], np.float32)
        def get_observation_length(self):
            return self.superblocks

    SuperblockQpEnv(clip, state=Mine)

A state sees a frame before it is coded; `feedback` gives it what became of the one before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from gymnasium import spaces

from reelrl.encode import features as source
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.settings import MAX_OFFSET, SUPERBLOCK, qindex_of
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.encode.superblock.rewards import Outcome, Scores

    Floats = NDArray[np.float32]

StateFactory = Callable[..., "AbstractState"]

LARGEST = 10.0
"""Normalised observations are cut at so many standard deviations."""


class ClipView:
    """What a state may ask about the video, in the words of our clips and in those of older readers."""

    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.width, self.height, self.fps = clip.width, clip.height, clip.fps
        self.frame_count = clip.frame_count
        self.superblock_count = clip.superblock_count
        self.grid = clip.grid

    def get_num_superblock(self) -> int:
        return self.superblock_count

    def get_frame_count(self) -> int:
        return self.frame_count

    def get_width(self) -> int:
        return self.width

    def get_height(self) -> int:
        return self.height


class Superblocks(Sequence[dict[str, int]]):
    """The superblocks of a frame in raster order, each a dict that is made when asked for.

    `features` [8, superblocks] and `qp` hold the same facts for those in a hurry.
    """

    def __init__(self, features: Floats, qp: int, width: int, height: int) -> None:
        self.features = features
        self.qp = qp
        self._width, self._height = width, height
        self._columns = -(-width // SUPERBLOCK)

    def __len__(self) -> int:
        return int(self.features.shape[1])

    @overload
    def __getitem__(self, index: int) -> dict[str, int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, int]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, int] | list[dict[str, int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"superblock {index} of {len(self)}")
        index %= len(self)
        x, y = index % self._columns * SUPERBLOCK, index // self._columns * SUPERBLOCK
        return {
            "sb_org_x": x,
            "sb_org_y": y,
            "sb_width": min(SUPERBLOCK, self._width - x),
            "sb_height": min(SUPERBLOCK, self._height - y),
            "sb_qindex": qindex_of(self.qp),
            "sb_x_mv": round(float(self.features[source.MOTION_X, index])),
            "sb_y_mv": round(float(self.features[source.MOTION_Y, index])),
        }


class BaselineObservation(NamedTuple):
    """A frame of the baseline pass, as states are given it when they are made."""

    picture_number: int
    frame_type: FrameType
    superblocks: Superblocks
    size_bytes: int
    psnr: Scores


class AbstractState(ABC):
    """Builds observations: float32 vectors of one length."""

    def __init__(
        self,
        video_reader: ClipView,
        baseline_observations: Sequence[BaselineObservation],
        sb_size: int = SUPERBLOCK,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise ConfigError(f"{type(self).__name__} takes no {', '.join(sorted(kwargs))}")
        self.video_reader = video_reader
        self.baseline_observations = baseline_observations
        self.sb_size = sb_size
        self.superblocks = video_reader.superblock_count

    @abstractmethod
    def get_observation(self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int) -> Floats:
        """What the agent sees before this frame is coded."""

    @abstractmethod
    def get_observation_length(self) -> int:
        """Numbers in an observation."""

    def get_observation_space(self) -> spaces.Box:
        """Where observations lie before they are normalised."""
        return spaces.Box(-np.inf, np.inf, (self.get_observation_length(),), np.float32)

    def get_groups(self) -> NDArray[np.int64]:
        """For each number of an observation, the group it is normalised with; here each has its own."""
        return np.arange(self.get_observation_length())

    def reset(self) -> None:  # noqa: B027 - most states remember nothing
        """An episode begins."""

    def feedback(self, outcome: Outcome) -> None:  # noqa: B027 - most states remember nothing
        """What became of the frame that was observed last."""


class NaiveState(AbstractState):
    """Per superblock: luma variance, horizontal and vertical motion, mean absolute level; feature-major [4, n].

    Values that are not finite are replaced by the largest that the baseline pass had in their row.
    """

    rows: tuple[int, ...] = (source.LUMA_VARIANCE, source.MOTION_X, source.MOTION_Y, source.LEVEL)

    def __init__(
        self,
        video_reader: ClipView,
        baseline_observations: Sequence[BaselineObservation],
        sb_size: int = SUPERBLOCK,
        **kwargs: Any,
    ) -> None:
        super().__init__(video_reader, baseline_observations, sb_size, **kwargs)
        self._rows = list(self.rows)
        seen = np.stack([one.superblocks.features[self._rows] for one in baseline_observations])
        self.observed_maximum = np.where(np.isfinite(seen), seen, 0).max(axis=(0, 2), keepdims=True)[0]

    def get_observation(self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int) -> Floats:  # noqa: ARG002
        values = sbs.features[self._rows]
        if not np.isfinite(values).all():
            values = np.where(np.isfinite(values), values, self.observed_maximum)
        return values.ravel()

    def get_observation_length(self) -> int:
        return len(self.rows) * self.superblocks

    def get_groups(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.rows)), self.superblocks)


class FeatureState(NaiveState):
    """All eight features of every superblock."""

    rows = tuple(range(len(source.FEATURES)))


class FeedbackState(FeatureState):
    """The eight features; then, of the previous frame, offsets and errors per superblock; then six numbers.

    The numbers: key frame or not, QP over 63, place in the clip, and of the frame before its size over the baseline's,
    its luma PSNR above the baseline's, and the size of the episode so far over the baseline's. Encoders report no bits
    per superblock; the error is the logarithm of the luma error per pixel.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pixels = source.superblock_areas(self.video_reader.width, self.video_reader.height)
        self.reset()

    def reset(self) -> None:
        self._offsets: Floats = np.zeros(self.superblocks, np.float32)
        self._errors: Floats = np.zeros(self.superblocks, np.float32)
        self._last = (1.0, 0.0, 1.0)
        self._spent = self._baseline_spent = 0

    def feedback(self, outcome: Outcome) -> None:
        self._offsets = outcome.offsets.astype(np.float32) / np.float32(MAX_OFFSET)
        self._errors = np.log1p(outcome.block_sse / self._pixels).astype(np.float32)
        self._spent += outcome.size_bytes
        self._baseline_spent += outcome.baseline_size_bytes
        gain = outcome.psnr[0] - outcome.baseline_psnr[0]
        size = outcome.size_bytes / outcome.baseline_size_bytes
        self._last = (size, gain, self._spent / self._baseline_spent)

    def get_observation(self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int) -> Floats:
        texture = super().get_observation(frame, sbs, frame_type, picture_number)
        place = picture_number / self.video_reader.frame_count
        numbers = (float(frame_type == FrameType.KEY), sbs.qp / 63, place, *self._last)
        return np.concatenate([texture, self._offsets, self._errors, np.array(numbers, np.float32)])

    def get_observation_length(self) -> int:
        return super().get_observation_length() + 2 * self.superblocks + 6

    def get_groups(self) -> NDArray[np.int64]:
        rows = len(self.rows) + 2
        return np.concatenate([np.repeat(np.arange(rows), self.superblocks), rows + np.arange(6)])


class EmbeddingState(FeatureState):
    """The eight features, and a vector that `embed(frame)` makes of the whole frame, e.g. with an autoencoder.

    SuperblockQpEnv(clip, state=functools.partial(EmbeddingState, embed=encoder))
    """

    def __init__(self, *args: Any, embed: Callable[[Frame], ArrayLike], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._embed = embed
        self._embedding_length = int(np.asarray(embed(next(iter(self.video_reader.clip)))).size)

    def get_observation(self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int) -> Floats:
        texture = super().get_observation(frame, sbs, frame_type, picture_number)
        return np.concatenate([texture, np.asarray(self._embed(frame), np.float32).ravel()])

    def get_observation_length(self) -> int:
        return super().get_observation_length() + self._embedding_length

    def get_groups(self) -> NDArray[np.int64]:
        per_row = super().get_groups()
        return np.concatenate([per_row, len(self.rows) + np.arange(self._embedding_length)])


@dataclass(frozen=True, eq=False)
class Normalisation:
    """Mean and deviation of each group of numbers in an observation.

    Groups are rows of features in the states of ours, so what one clip taught can be used at another resolution.
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def learn(cls, observations: Floats, groups: NDArray[np.int64]) -> Normalisation:
        """From the observations [frames, length] of a baseline pass; what never changes is only centred."""
        count = np.bincount(groups) * len(observations)
        mean = np.bincount(groups, observations.sum(0, dtype=np.float64)) / count
        centred = observations - mean[groups]
        deviation = np.sqrt(np.bincount(groups, (centred * centred).sum(0)) / count)
        deviation[deviation < 1e-6] = 1.0
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    def spread(self, groups: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Mean, and one over the deviation, of each number of an observation."""
        wanted = int(groups.max()) + 1
        if len(self.mean) != wanted:
            raise ConfigError(f"the normalisation has {len(self.mean)} groups, this state has {wanted}; learn it anew")
        return self.mean[groups], (np.float32(1) / self.deviation)[groups]


def checked_observation(observation: Any, length: int, number: int) -> Floats:
    """The observation as float32, or an error that names the frame."""
    values = np.asarray(observation, np.float32)
    if values.shape != (length,):
        raise InvalidStateError(f"the state of frame {number} has shape {values.shape}; it promised ({length},)")
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidStateError(
            f"number {bad} of the state of frame {number} is {values[bad]}; replace what is not finite in the state"
        )
    return values
