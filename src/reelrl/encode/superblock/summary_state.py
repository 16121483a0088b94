"""`summary`: an observation whose length does not depend on the picture's size, so that agents move between clips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode import features as source
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.superblock.states import FeedbackState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Frame
    from reelrl.encode.superblock.states import Superblocks

    Floats = NDArray[np.float32]

LOGS = [source.LUMA_VARIANCE, source.GRADIENT, source.FRAME_DIFFERENCE, source.MOTION_RESIDUAL]
"""Rows that span powers of ten, taken as logarithms."""


class SummaryState(FeedbackState):
    """Mean and deviation of each of the eight features over the superblocks; then the six numbers of `feedback`.

    With `action="features"` neither what is seen nor what is decided counts superblocks.
    """

    def get_observation(self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int) -> Floats:  # noqa: ARG002
        rows = np.nan_to_num(sbs.features, nan=0.0, posinf=0.0, neginf=0.0)
        rows[LOGS] = np.log1p(np.maximum(rows[LOGS], 0))
        place = picture_number / self.video_reader.frame_count
        numbers = (float(frame_type == FrameType.KEY), sbs.qp / 63, place, *self._last)
        return np.concatenate([rows.mean(1), rows.std(1), numbers]).astype(np.float32)

    def get_observation_length(self) -> int:
        return 2 * len(source.FEATURES) + 6

    def get_groups(self) -> NDArray[np.int64]:
        return np.arange(self.get_observation_length())
