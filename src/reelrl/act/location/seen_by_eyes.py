"""The last visible place, read from the same pixels that the net gets: a baseline with the net's own eyes.

Eyes of `reel train eyes` say for every frame at which places a mate or an enemy is on screen. How sure they are now,
how sure they were at most in the seconds before, and earlier, is turned into the chance that somebody is there, as it
was in training matches. The net has these eyes too; what it says beyond this it has not merely seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.eyes_net import READINGS
from reelrl.act.location.net import HEADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.embeddings import Clips
    from reelrl.act.location.samples import Marks, Moments
    from reelrl.act.recording.reader import MatchInfo

    Floats = NDArray[np.float64]
    Steps = tuple[NDArray[np.int64], ...]

_SURE = np.array([0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.9])  # steps of how sure the eyes are
_AGES_S = (0.0, 3.0, 10.0)  # now, during so many seconds before, and during so many before those


class SeenByEyes:
    """`clips` are the readings of these eyes, by the matches they are of."""

    def __init__(self, clips: Mapping[tuple[MatchInfo, ...], Clips], rows_per_second: float) -> None:
        self.clips, self.rows_per_second = clips, rows_per_second

    def fit(self, moments: Moments, pov: Marks) -> None:
        truth = moments.targets(pov)
        self.usual = {head: marks.mean(0).clip(1e-3, 1 - 1e-3) for head, marks in truth.items()}
        self.evidence = {head: _evidence(self._steps(moments, pov, head), truth[head]) for head in HEADS}

    def answer(self, moments: Moments, pov: Marks) -> Answers:
        answers = {}
        for head in HEADS:
            odds = self.usual[head] / (1 - self.usual[head]) * self.evidence[head][self._steps(moments, pov, head)]
            answers[head] = (odds / (1 + odds)).astype(np.float32)
        return answers

    def _steps(self, moments: Moments, pov: Marks, head: str) -> Steps:
        """How sure the eyes are [N, places], as numbers of _SURE, for each of _AGES_S."""
        clips = self.clips[moments.matches]
        histories, which, rows = clips.histories(moments)
        said = torch.unflatten(histories, -1, (-1, len(READINGS)))
        sure = said[..., READINGS.index(head.partition("_")[0])]
        frames = [round(age * self.rows_per_second / clips.eyes.stride) for age in _AGES_S]
        eyes = torch.from_numpy(pov)[..., None]
        found = []
        for newest, oldest in zip([0, *(each + 1 for each in frames)], frames, strict=False):
            most = _most(sure, newest, oldest)[torch.from_numpy(which), :, torch.from_numpy(rows)]
            found.append(np.searchsorted(_SURE, (most * eyes).amax(1).numpy()))
        return tuple(found)


def _most(sure: Tensor, newest: int, oldest: int) -> Tensor:
    """The most [M, A, rows, places] from `newest` to `oldest` frames before each."""
    most = torch.zeros_like(sure)
    for back in range(newest, min(oldest + 1, sure.shape[2])):
        most[:, :, back:] = torch.maximum(most[:, :, back:], sure[:, :, : sure.shape[2] - back])
    return most


def _evidence(steps: Steps, truth: Marks) -> Floats:
    """How much more often such steps, one for each age, are seen where somebody is than where nobody is."""
    shape = (len(_SURE) + 1,) * len(steps)
    counts = []
    for there in (truth, ~truth):
        found = np.ones(shape) / np.prod(shape)
        np.add.at(found, tuple(each[there] for each in steps), 1)
        counts.append(found / found.sum())
    return np.asarray(counts[0] / counts[1])
