"""L2A-LL, "learn to adapt" for low latency (Karagkioules, Mekuria, Griffioen, Wagenaar, 2020): online learning.

A probability over rungs is moved after every chunk along the gradient of a Lagrangian and brought back onto the
simplex: rungs that the link carries gain, those above it lose, the more the longer the buffer has been shrinking. The
rung nearest to the mean rate is played; upwards it goes one rung at a time. Made for players that hold a second or two:
in front of a long buffer it leaves bits unused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.stream.controllers.protocol import SmoothedRate, highest_below, view

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

Floats = npt.NDArray[np.float64]

HORIZON = 4
CAUTION = HORIZON**0.99
STEP = max(float(HORIZON), CAUTION * math.sqrt(HORIZON))
REACTION = 2.0
TARGET_S = 1.5  # a buffer from which on it learns
SAFETY = 0.9


def onto_simplex(point: Floats) -> Floats:
    """The nearest point whose entries are 0 or more and sum to one."""
    ordered = np.sort(point)[::-1]
    shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, len(point) + 1)
    shift = shifts[np.flatnonzero(ordered > shifts)[-1]]
    nearest: Floats = np.maximum(point - shift, 0.0)
    return nearest


class L2a:
    """Without arguments, as published."""

    privileged = False

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the ladder; forget what was learned."""
        self._video = episode.video
        self._rate = SmoothedRate()
        self._weights: Floats | None = None
        self._multiplier = CAUTION

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        rates = self._video.bitrates_kbps
        self._rate.push(float(seen.throughputs[-1]), seen.download_s)
        if self._weights is None:
            rung = highest_below(rates, SAFETY * self._rate.bytes_per_s / 125.0)
            if seen.buffer_s >= TARGET_S:
                self._weights = np.eye(len(rates))[rung]
            return rung
        return self._learned(self._weights, float(seen.throughputs[-1]) / 125.0, seen.last_rung)

    def _learned(self, weights: Floats, kbps: float, last: int) -> int:
        """One step of the gradient, and the rung that it leads to."""
        rates, chunk_s = self._video.bitrates_kbps, self._video.chunk_s
        load = rates / max(kbps, 1.0)
        direction = np.where(load > 1.0, -1.0, 1.0)
        step = chunk_s / (2.0 * STEP) * (self._multiplier + CAUTION) * load
        self._weights = onto_simplex(weights + direction * step)
        mean = float(rates @ self._weights)
        # The multiplier grows by the seconds of buffer that the mixture costs, and shrinks by those that it brings.
        self._multiplier = max(self._multiplier + chunk_s * (mean / max(kbps, 1.0) - 1.0), 0.0)
        rung = int(np.argmin(np.abs(rates - mean)))
        if rung > last and rates[last + 1] <= kbps:
            rung = last + 1
        if rates[rung] >= kbps:
            self._multiplier = REACTION * max(CAUTION, self._multiplier)
        return rung
