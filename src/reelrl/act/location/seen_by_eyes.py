"""The last visible place, read from the same pixels that the net gets: a baseline with the net's own eyes.

Eyes of `reel train eyes` say for every frame where the player is, and who is on screen at which place. Whom they see
more surely than not counts as seen there; how such sightings age is learned from training matches, as `LastSeen` does.
The net has these eyes too; what it says beyond this it has not merely seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.baselines import LastSeen, Sights
from reelrl.act.location.readings import readings_of, split

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.act.location.embeddings import Clips
    from reelrl.act.location.samples import Moments, SampleSettings
    from reelrl.act.recording.maps import MapPlan
    from reelrl.act.recording.reader import Matches, MatchInfo

_SURE = 0.5


class SeenByEyes(LastSeen):
    """`clips` are the readings of these eyes, by the matches they are of."""

    def __init__(
        self,
        data: Matches,
        plan: MapPlan,
        samples: SampleSettings,
        clips: Mapping[tuple[MatchInfo, ...], Clips],
    ) -> None:
        super().__init__(data, plan, samples, None)
        self.clips = clips

    def sights(self, moments: Moments) -> Sights:
        """What the eyes saw until the last of the moments, of one match; where all truly were is the recording's."""
        told, clips = super().sights(moments), self.clips[moments.matches]
        stride, (players, bodies) = clips.eyes.stride, told.last.shape[1:]
        histories, _, _ = clips.histories(moments)
        own, there = split(torch.unflatten(histories[0, :players], -1, (len(self.plan.places), -1)))
        sure = there.permute(1, 0, 3, 2).numpy()  # [steps, players, bodies, places]
        seen = (sure.max(-1) > _SURE) & ~np.eye(players, bodies, dtype=bool)
        steps = np.arange(len(seen))[:, None, None]
        last = np.maximum.accumulate(np.where(seen, steps, -1), axis=0)
        places = np.take_along_axis(sure.argmax(-1), np.maximum(last, 0), 0)
        return replace(
            told,
            last=np.repeat(np.where(last >= 0, last * stride, -1), stride, axis=0),
            seen_at=np.repeat(np.where(last >= 0, places, -1), stride, axis=0),
            own=np.repeat(own[..., 0].argmax(-1).numpy().T, stride, axis=0),
        )


def name_everybody(width: int, data: Matches, plan: MapPlan, matches: tuple[MatchInfo, ...]) -> bool:
    """Whether eyes that say `width` numbers tell all bodies of these matches apart."""
    labels = [data.match(info.id).labels for info in matches]
    bodies = {each.alive.shape[1] + each.enemy_alive.shape[1] for each in labels}
    return {len(plan.places) * readings_of(each) for each in bodies} == {width}
