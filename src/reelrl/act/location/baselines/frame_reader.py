"""The last visible place, read from the same pixels that the net gets: a baseline with the net's own frame reader.

It says for every frame where the player is, and who is on screen at which place. Whom it sees more surely than not
counts as seen there; how such sightings age is learned from training matches, as `LastSighting` does. The net has this
frame reader too; what it says beyond this it has not merely seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.baselines.simple import LastSighting, Sightings
from reelrl.act.location.readings import split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.act.location.embeddings import Clips
    from reelrl.act.location.samples import Moments, SampleSettings
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches, MatchInfo

_SURE = 0.5


class FrameReaderSightings(LastSighting):
    """`clips` are what the frame reader read, by the matches they are of."""

    def __init__(
        self,
        data: Matches,
        plan: MapPlan,
        samples: SampleSettings,
        clips: Mapping[tuple[MatchInfo, ...], Clips],
    ) -> None:
        super().__init__(data, plan, samples, None)
        self.clips = clips
        self._read: dict[str, Sightings] = {}

    def sightings(self, moments: Moments) -> Sightings:
        """What was read in the match that these moments are of; where all truly were is the recording's."""
        match = moments.matches[moments.match[0]].id
        if match not in self._read:
            self._read[match] = self._readings(super().sightings(moments), moments)
        return self._read[match]

    def _readings(self, recorded: Sightings, moments: Moments) -> Sightings:
        clips = self.clips[moments.matches]
        stride, (players, bodies) = clips.encoder.stride, recorded.last.shape[1:]
        last_row = replace(moments.take(np.array([0])), row=np.array([len(recorded.where) - 1]))
        histories, _, _ = clips.histories(last_row)
        own, there = split(torch.unflatten(histories[0, :players], -1, (len(self.plan.places), -1)))
        sure = there.permute(1, 0, 3, 2).numpy()  # [steps, players, bodies, places]
        seen = (sure.max(-1) > _SURE) & ~np.eye(players, bodies, dtype=bool)
        steps = np.arange(len(seen))[:, None, None]
        last = np.maximum.accumulate(np.where(seen, steps, -1), axis=0)
        places = np.take_along_axis(sure.argmax(-1), np.maximum(last, 0), 0)
        return replace(
            recorded,
            last=np.repeat(np.where(last >= 0, last * stride, -1), stride, axis=0),
            seen_at=np.repeat(np.where(last >= 0, places, -1), stride, axis=0),
            own=np.repeat(own[..., 0].argmax(-1).numpy().T, stride, axis=0),
        )
