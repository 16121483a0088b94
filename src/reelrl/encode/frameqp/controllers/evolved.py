"""How frames should differ, by a linear rule that an evolution search found; the rate model around it meets the budget.

It sees what is known before the pass: the plan, and libaom's first-pass statistics.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.state import FIRST_PASS
from reelrl.encode.rule_file import checked_weights, load_rule, save_rule
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.frameqp.protocols import FrameQpEpisode

INPUTS = (
    *("key", "arf", "inner_arf", "depth", "bits", "inter", "intra", "inter_ahead"),
    *("key_calm", "arf_calm", "depth_calm"),
)
"""What it sees of a frame: its kind; how far its own quantiser is below the leaves', in 40 steps; octaves above the
clip's mean of its bits and of its first-pass errors, and of the errors of the eight frames after it. With `calm`: times
how well the clip's frames are predicted from each other, in octaves above the usual."""

LARGEST_OFFSET = 24.0
_USUAL_CALM = 2.0  # octaves of a frame's first-pass error from itself above that from the frame before
_AHEAD = 8


def inputs(episode: FrameQpEpisode) -> NDArray[np.float64]:
    """[planned frames, INPUTS]"""
    rows = episode.first_pass
    inter, intra = _relative(rows[:, FIRST_PASS["inter"]]), _relative(rows[:, FIRST_PASS["intra"]])
    ahead = [float(inter[at + 1 : at + 1 + _AHEAD].mean()) for at in range(len(inter) - 1)] + [0.0]
    leaf = max(each.qindex for each in episode.plan)
    means = [1 + float(rows[:, FIRST_PASS[name]].mean()) for name in ("intra", "inter")]
    calm = math.log2(means[0] / means[1]) - _USUAL_CALM
    bits = _relative(np.array([each.bits for each in episode.plan]))
    return np.array(
        [
            [
                each.kind == "key",
                each.kind == "arf",
                each.kind == "inner_arf",
                (leaf - each.qindex) / 40,
                bits[number],
                inter[each.frame],
                intra[each.frame],
                ahead[each.frame],
                calm * (each.kind == "key"),
                calm * (each.kind == "arf"),
                calm * (leaf - each.qindex) / 40,
            ]
            for number, each in enumerate(episode.plan)
        ],
        np.float64,
    )


class EvolvedShape(FrameRateModel):
    """Offsets by the rule of a file that `reel fit frameqp` made: one weight per input, in steps."""

    def __init__(self, weights: Sequence[float], facts: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.weights, self.facts = checked_weights(weights, INPUTS), facts or {}

    @classmethod
    def load(cls, path: str | Path) -> EvolvedShape:
        weights, facts = load_rule(path, INPUTS, what="rule over frames", command="reel fit frameqp")
        return cls(weights.tolist(), facts)

    def save(self, path: str | Path) -> None:
        save_rule(path, INPUTS, self.weights, self.facts)

    def shapes(self, episode: FrameQpEpisode) -> list[float]:
        return _bounded((inputs(episode) @ self.weights).tolist())


class FixedShape(FrameRateModel):
    """Offsets of one clip's planned frames, one by one: what a search of that clip found."""

    def __init__(self, offsets: Sequence[float]) -> None:
        super().__init__()
        self.offsets = tuple(offsets)

    def shapes(self, episode: FrameQpEpisode) -> list[float]:
        if len(self.offsets) != len(episode.plan):
            raise ConfigError(
                f"{len(self.offsets)} offsets for {len(episode.plan)} planned frames; they belong to another clip"
            )
        return _bounded(self.offsets)


def _bounded(offsets: Sequence[float]) -> list[float]:
    return [min(max(offset, -LARGEST_OFFSET), LARGEST_OFFSET) for offset in offsets]


def _relative(values: NDArray[np.float64]) -> NDArray[np.float64]:
    octaves = np.array([math.log2(1 + max(value, 0.0)) for value in values.tolist()])
    return octaves - float(octaves.mean())
