"""How frames should differ, by a linear rule that an evolution search found; the rate model around it meets the budget.

It sees what is known before the pass: the plan, and libaom's first-pass statistics.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.state import FIRST_PASS
from reelrl.errors import CheckpointError
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reelrl.encode.frameqp.protocols import FrameQpEpisode

INPUTS = ("key", "arf", "inner_arf", "depth", "bits", "inter", "intra", "inter_ahead")
"""What it sees of a frame: its kind; how far its own quantiser is below the leaves', in 40 steps; octaves above the
clip's mean of its bits and of its first-pass errors, and of the errors of the eight frames after it."""

LARGEST_OFFSET = 24.0
_AHEAD = 8


def inputs(episode: FrameQpEpisode) -> NDArray[np.float64]:
    """[planned frames, INPUTS]"""
    rows = episode.first_pass
    inter, intra = _relative(rows[:, FIRST_PASS["inter"]]), _relative(rows[:, FIRST_PASS["intra"]])
    ahead = [float(inter[at + 1 : at + 1 + _AHEAD].mean()) for at in range(len(inter) - 1)] + [0.0]
    leaf = max(each.qindex for each in episode.plan)
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
            ]
            for number, each in enumerate(episode.plan)
        ],
        np.float64,
    )


class EvolvedShape(FrameRateModel):
    """Offsets by the rule of a file that `reel fit frameqp` made: one weight per input, in steps."""

    def __init__(self, weights: Sequence[float], facts: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.weights, self.facts = np.array(weights, np.float64), facts or {}
        if self.weights.shape != (len(INPUTS),) or not np.isfinite(self.weights).all():
            raise CheckpointError(
                f"weights {self.weights.tolist()}; a rule has {len(INPUTS)} finite ones, one per input"
            )

    @classmethod
    def load(cls, path: str | Path) -> EvolvedShape:
        try:
            saved = parse_object(read_regular(path, follow_links=True))
            if saved["inputs"] != list(INPUTS):
                raise CheckpointError(f"{path} sees {saved['inputs']}, this version shows {list(INPUTS)}; fit it anew")
            return cls(saved["weights"], saved["facts"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path} is no rule over frames ({type(error).__name__}: {error}); make one: reel fit frameqp -o {path}"
            ) from error

    def save(self, path: str | Path) -> None:
        rule = {"inputs": INPUTS, "weights": self.weights.tolist(), "facts": self.facts}
        write_atomic(path, json.dumps(rule, indent=2) + "\n")

    def shapes(self, episode: FrameQpEpisode) -> list[float]:
        offsets: list[float] = (inputs(episode) @ self.weights).tolist()
        return [min(max(offset, -LARGEST_OFFSET), LARGEST_OFFSET) for offset in offsets]


def _relative(values: NDArray[np.float64]) -> NDArray[np.float64]:
    octaves = np.array([math.log2(1 + max(value, 0.0)) for value in values.tolist()])
    return octaves - float(octaves.mean())
