"""The last visible place, read from the same pixels that the net gets: a baseline with the net's own eyes.

Eyes of `reel train eyes` say for every frame at which places a mate or an enemy is on screen. How sure they are now,
and how sure they were at most earlier in the clip, is turned into the chance that somebody is there, as it was in
training matches. The net has these eyes too; what it says beyond this it has not merely seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.net import HEADS
from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.embeddings import Clips
    from reelrl.act.location.samples import Marks, Moments
    from reelrl.act.recording.reader import MatchInfo

    Floats = NDArray[np.float64]

_SURE = np.array([0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # steps of how sure the eyes are
_AT_ONCE = 512


class SeenByEyes:
    """`clips` are the embeddings of these eyes, by the matches they are of."""

    def __init__(self, weights: str | Path, clips: Mapping[tuple[MatchInfo, ...], Clips]) -> None:
        self.heads, self.clips = heads_of(weights), clips

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

    def _steps(self, moments: Moments, pov: Marks, head: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How sure the eyes are [N, places], as numbers of _SURE: in the newest frame, and at most before it."""
        weight, bias = self.heads[head.partition("_")[0]]
        clips = self.clips[moments.matches]
        parts = []
        for start in range(0, len(moments), _AT_ONCE):
            chosen = np.arange(start, min(start + _AT_ONCE, len(moments)))
            rows = clips.rows(moments.take(chosen)).float()  # [n, A, T, D]
            sure = (rows @ weight.T + bias).sigmoid() * torch.from_numpy(pov[chosen])[:, :, None, None]
            parts.append(sure.amax(1))
        seen = torch.cat(parts).numpy()  # [N, T, places]
        before = seen[:, :-1].max(1, initial=0)
        return np.searchsorted(_SURE, seen[:, -1]), np.searchsorted(_SURE, before)


def heads_of(weights: str | Path) -> dict[str, tuple[Tensor, Tensor]]:
    """The layers that say where mates and enemies are on the screen, from the file of trained eyes."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "pt") as file:
            return {
                name: (file.get_tensor(f"heads.{name}.weight"), file.get_tensor(f"heads.{name}.bias"))
                for name in ("mates", "enemies")
            }
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{weights} are no eyes of `reel train eyes` ({error})") from error


def _evidence(steps: tuple[NDArray[np.int64], NDArray[np.int64]], truth: Marks) -> Floats:
    """How much more often such steps [now, before] are seen where somebody is than where nobody is."""
    shape = (len(_SURE) + 1,) * 2
    counts = []
    for there in (truth, ~truth):
        found = np.ones(shape) / np.prod(shape)
        np.add.at(found, (steps[0][there], steps[1][there]), 1)
        counts.append(found / found.sum())
    return np.asarray(counts[0] / counts[1])
