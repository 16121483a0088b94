"""The expert that a student imitates: the best plan for the next few chunks, the link's future known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.stream.label_search import LABEL, expand, undominated
from reelrl.stream.simulator.packed import pack_links

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Video
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.simulator.qoe import Qoe
    from reelrl.stream.simulator.rule import Rule

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.void]

HORIZON = 8  # chunks
TOLERANCE = 0.05  # of what a chunk can be worth: plans that differ by less are one


class Expert:
    """Answers for players of one video on any of `traces`: HORIZON chunks ahead, dynamic programming over labels."""

    def __init__(self, traces: list[Trace], video: Video, qoe: Qoe, rule: Rule) -> None:
        self._links = [pack_links([trace]) for trace in traces]
        self._video = video
        self._utilities = qoe.utilities(video)
        self._stall_penalty = qoe.stall_penalty / 1000.0
        self._smooth = qoe.smooth_penalty
        self._rule = rule._replace(noise_low=1.0, noise_high=1.0)
        self._tolerance = TOLERANCE * float(np.ptp(self._utilities, axis=1).max())

    def values(self, trace: int, slot: int, clock_s: float, buffer_ms: float, chunk: int, last_rung: int) -> Floats:
        """What the best plan is worth that begins with each rung; `slot` counts from the trace's first."""
        now = np.zeros(1, dtype=LABEL)
        now[0] = (slot, clock_s, buffer_ms, 0.0, 0.0, last_rung, -1)
        first = self._followed(now, trace, chunk)
        return np.array([self._best(first[rung : rung + 1], trace, chunk + 1) for rung in range(len(first))])

    def _best(self, labels: Labels, trace: int, chunk: int) -> float:
        """What the best continuation of `labels` is worth, all told."""
        end = min(chunk + HORIZON - 1, self._video.chunks)
        for step in range(chunk, end):
            labels = self._followed(labels, trace, step)
            if step < end - 1:
                keep = undominated(labels, self._worth(labels), self._utilities[step], self._smooth, self._tolerance)
                labels = labels[keep]
        return float(self._worth(labels).max())

    def _followed(self, labels: Labels, trace: int, chunk: int) -> Labels:
        """Every label followed by every rung."""
        followed: Labels = expand(
            labels,
            self._video.sizes_bytes[chunk],
            self._utilities[chunk],
            self._utilities[chunk - 1],
            self._video.chunk_s * 1000.0,
            self._smooth,
            self._links[trace],
            self._rule,
            False,
        )
        return followed

    def _worth(self, labels: Labels) -> Floats:
        worth: Floats = labels["worth"] - self._stall_penalty * labels["stall_ms"]
        return worth
