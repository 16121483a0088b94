"""What a controller may know before a session, and how it reads the state while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from reelrl.stream.data.ladders import Video
from reelrl.stream.data.traces import Trace
from reelrl.stream.simulator.observation import B_IN_MB, BUFFER_NORM_FACTOR, DEFAULT_QUALITY
from reelrl.stream.simulator.qoe import Qoe
from reelrl.stream.simulator.rule import PENSIEVE, Rule

Observation = npt.NDArray[np.float32]
MOMENT_S = 1e-3


@dataclass(frozen=True, eq=False)
class EpisodeInfo:
    """One viewer, one video. `trace` is set only for controllers that say `privileged = True`."""

    video: Video
    qoe: Qoe = Qoe()  # noqa: RUF009 - frozen, so shared safely
    rule: Rule = PENSIEVE
    default_quality: int = DEFAULT_QUALITY
    trace: Trace | None = None


Session = EpisodeInfo
"""What version 0.1 called it."""


class Controller(Protocol):
    """Anything that chooses rungs.

    One that can say more about its last choice has `reason()`, too: a dictionary with `preferences` (per rung, sum 1)
    or `estimate_kbps` (what it expects of the link), which players show.
    """

    privileged: bool

    def reset(self, seed: int, episode: EpisodeInfo) -> None: ...
    def act(self, observation: Observation) -> int: ...


@dataclass(frozen=True)
class View:
    """The state in units that formulas use."""

    buffer_s: float
    last_rung: int
    next_chunk: int
    throughputs: npt.NDArray[np.float64]  # bytes per second, oldest first, only what was measured
    download_s: float  # of the last chunk, round trip included
    request_buffer_s: float  # buffer when the last chunk was requested
    slept_s: float  # how long the player waited after the last chunk, its buffer full


def view(observation: Observation, video: Video) -> View:
    """Read a state; the chunk and rung indices come back exactly."""
    state = observation.astype(np.float64)
    share = state[0, -1] * video.bitrates_kbps[-1]
    measured = state[2][state[3] > 0]
    buffer_s, before_s = (float(state[1, column] * BUFFER_NORM_FACTOR) for column in (-1, -2))
    download_s = float(state[3, -1] * BUFFER_NORM_FACTOR)
    # Nobody reports a sleep: it is what the buffer lacks. float32 leaves less than a millisecond of doubt.
    slept_s = max(before_s - download_s, 0.0) + video.chunk_s - buffer_s
    return View(
        buffer_s=buffer_s,
        last_rung=int(np.abs(video.bitrates_kbps - share).argmin()),
        next_chunk=video.chunks - round(float(state[5, -1]) * video.chunks),
        throughputs=measured * B_IN_MB,
        download_s=download_s,
        request_buffer_s=before_s,
        slept_s=slept_s if slept_s > MOMENT_S else 0.0,
    )


def harmonic_mean(throughputs: npt.NDArray[np.float64], last: int = 5) -> float:
    """The rate at which the last few chunks, had they been of one size, arrived."""
    recent = throughputs[-last:]
    return float(len(recent) / np.sum(1.0 / recent)) if len(recent) else 0.0


class SmoothedRate:
    """Throughput as dash.js and Sabre average it: the lower of a fast and a slow moving average, in bytes per second.

    A chunk weighs as much as its download took. Both averages start at zero; dividing by the weight seen so far makes
    up for that.
    """

    HALF_LIVES_S = (3.0, 8.0)

    def __init__(self) -> None:
        self._sums = [0.0, 0.0]
        self._weight_s = 0.0

    def push(self, bytes_per_s: float, weight_s: float) -> None:
        """One more measurement."""
        self._weight_s += weight_s
        for index, half_life_s in enumerate(self.HALF_LIVES_S):
            remaining = 0.5 ** (weight_s / half_life_s)
            self._sums[index] = remaining * self._sums[index] + (1.0 - remaining) * bytes_per_s

    @property
    def bytes_per_s(self) -> float:
        """The estimate; zero before the first measurement."""
        if not self._weight_s > 0:
            return 0.0
        parts = zip(self._sums, self.HALF_LIVES_S, strict=True)
        return min(float(total / (1.0 - 0.5 ** (self._weight_s / half_life_s))) for total, half_life_s in parts)


def shares(scores: npt.NDArray[np.float32]) -> list[float]:
    """Scores as preferences that sum to one."""
    powers = np.exp(scores.astype(np.float64) - float(scores.max()))
    preferences: list[float] = (powers / powers.sum()).tolist()
    return preferences


def highest_below(rates: npt.NDArray[np.float64], limit: float) -> int:
    """The highest rung whose rate is not above `limit`; the lowest if all are."""
    return max(int(np.searchsorted(rates, limit, side="right")) - 1, 0)
