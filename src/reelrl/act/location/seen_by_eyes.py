"""The last visible place, read from the same pixels that the net gets: a baseline with the net's own eyes.

Eyes of `reel train eyes` say for every frame where the player is, and at which places a mate or an enemy is on screen.
How sure they are now, how sure they were at most in the seconds before, and earlier, go through one linear layer over
all places, fitted on training matches. The net has these eyes too; what it says beyond this it has not merely seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.eyes_net import KINDS, READINGS
from reelrl.act.location.linear_reading import LinearReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.embeddings import Clips
    from reelrl.act.location.samples import Marks, Moments
    from reelrl.act.recording.reader import MatchInfo


_AGES_S = (0.0, 3.0, 10.0)  # now, up to 3 s ago, and from then up to 10 s ago


class SeenByEyes:
    """`clips` are the readings of these eyes, by the matches they are of."""

    def __init__(self, clips: Mapping[tuple[MatchInfo, ...], Clips], rows_per_second: float) -> None:
        self.clips, self.rows_per_second, self.reading = clips, rows_per_second, LinearReading()

    def fit(self, moments: Moments, pov: Marks) -> None:
        self.reading.fit(self._known(moments, pov), moments.targets(pov))

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        return self.reading.answer(self._known(moments, pov))

    def _known(self, moments: Moments, pov: Marks) -> NDArray[np.float32]:
        """How sure the eyes are [N, ...]: of their own place, and of both kinds at each place for each of _AGES_S."""
        clips = self.clips[moments.matches]
        histories, which, rows = clips.histories(moments)
        said = torch.unflatten(histories, -1, (-1, len(READINGS)))
        frames = [round(age * self.rows_per_second / clips.eyes.stride) for age in _AGES_S]
        spans = list(zip([0, *(each + 1 for each in frames)], frames, strict=False))
        asked = [("own", 0, 0), *((kind, *span) for kind in KINDS for span in spans)]
        eyes, found = torch.from_numpy(pov)[..., None], []
        for reading, newest, oldest in asked:
            most = _most(said[..., READINGS.index(reading)], newest, oldest)
            found.append((most[torch.from_numpy(which), :, torch.from_numpy(rows)] * eyes).amax(1))
        return np.asarray(torch.cat(found, 1).numpy())


def _most(sure: Tensor, newest: int, oldest: int) -> Tensor:
    """The most [M, A, rows, places] from `newest` to `oldest` frames before each."""
    most = torch.zeros_like(sure)
    for back in range(newest, min(oldest + 1, sure.shape[2])):
        most[:, :, back:] = torch.maximum(most[:, :, back:], sure[:, :, : sure.shape[2] - back])
    return most
