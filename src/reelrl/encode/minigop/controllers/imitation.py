"""Imitation of the direct search: offsets of mini-GOPs by a linear rule, fitted to what the search found.

The rule sees only what the probe and the analysis of the source tell; the budget is met by the rate model around it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.minigop.controllers.rules import RateModel, relative_errors
from reelrl.encode.rule_file import checked_weights, load_rule, save_rule
from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.minigop.protocols import MiniGopEpisode, PlannedMiniGop

INPUTS = ("error", "bits", "next_error", "next_bits", "inter", "scene_cut", "next_scene_cut", "key", "left")
"""What the rule sees of a mini-GOP: octaves above the clip's mean, cuts from 0 to 1, share of the clip that is left."""


def inputs(episode: MiniGopEpisode, plan: Sequence[PlannedMiniGop]) -> NDArray[np.float64]:
    """[mini-GOPs, INPUTS]"""
    errors = np.array(relative_errors(episode, plan))
    bits = _relative([(planned.probe_bits or 1) / planned.frames for planned in plan])
    inter = _relative([planned.features["inter"] + 0.1 for planned in plan])
    cuts = np.array([planned.features["scene_cut"] for planned in plan])
    keys = np.array([planned.mg == 0 or plan[planned.mg - 1].gop != planned.gop for planned in plan], np.float64)
    left = 1 - np.array([planned.first_frame for planned in plan]) / episode.frames
    return np.stack([errors, bits, _next(errors), _next(bits), inter, cuts, _next(cuts), keys, left], 1)


class Imitation(RateModel):
    """Offsets by the rule of a file that `reel fit minigop` made; one weight per input, for inputs less their mean."""

    def __init__(self, weights: Sequence[float], facts: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.weights, self.facts = checked_weights(weights, INPUTS), facts or {}

    @classmethod
    def load(cls, path: str | Path) -> Imitation:
        weights, facts = load_rule(path, INPUTS, what="imitation of the direct search", command="reel fit minigop")
        return cls(weights.tolist(), facts)

    def save(self, path: str | Path) -> None:
        save_rule(path, INPUTS, self.weights, self.facts)

    def offsets(self, episode: MiniGopEpisode, plan: Sequence[PlannedMiniGop]) -> list[float]:
        seen = inputs(episode, plan)
        offsets: list[float] = ((seen - seen.mean(0)) @ self.weights).tolist()
        return offsets


Example = tuple["MiniGopEpisode", "Sequence[float]"]
"""An episode, and the deltas that a search found for it."""


def fit(examples: Sequence[Example], ridge: float = 1.0) -> Imitation:
    """The rule nearest to the deltas that a search found, clip by clip; each less its mean, which is the rate's."""
    x, y = _matrices(examples)
    return Imitation(np.linalg.solve(x.T @ x + ridge * np.eye(len(INPUTS)), x.T @ y).tolist())


def misfit(rule: Imitation, examples: Sequence[Example]) -> tuple[float, float]:
    """Sums of squares over mini-GOPs: what the rule leaves of the searched offsets, and the offsets themselves."""
    x, y = _matrices(examples)
    return float(((y - x @ rule.weights) ** 2).sum()), float((y**2).sum())


def _matrices(examples: Sequence[Example]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs and searched offsets of all mini-GOPs, each less the mean of its clip."""
    seen, wanted = [], []
    for episode, deltas in examples:
        if episode.plan is None or len(episode.plan) != len(deltas):
            raise CheckpointError(f"{episode.clip}: {len(deltas)} deltas, but the plan is another; search it anew")
        rows = inputs(episode, episode.plan)
        seen.append(rows - rows.mean(0))
        wanted.append(np.array(deltas) - np.mean(deltas))
    return np.concatenate(seen), np.concatenate(wanted)


def _relative(values: Sequence[float]) -> NDArray[np.float64]:
    octaves = np.array([math.log2(max(value, 1e-3)) for value in values], np.float64)
    return octaves - float(octaves.mean())


def _next(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([values[1:], values[-1:]])
