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
    """Anything that chooses rungs."""

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


def view(observation: Observation, video: Video) -> View:
    """Read a state; the chunk and rung indices come back exactly."""
    state = observation.astype(np.float64)
    share = state[0, -1] * video.bitrates_kbps[-1]
    measured = state[2][state[3] > 0]
    return View(
        buffer_s=float(state[1, -1] * BUFFER_NORM_FACTOR),
        last_rung=int(np.abs(video.bitrates_kbps - share).argmin()),
        next_chunk=video.chunks - round(float(state[5, -1]) * video.chunks),
        throughputs=measured * B_IN_MB,
    )


def harmonic_mean(throughputs: npt.NDArray[np.float64], last: int = 5) -> float:
    """The rate at which the last few chunks, had they been of one size, arrived."""
    recent = throughputs[-last:]
    return float(len(recent) / np.sum(1.0 / recent)) if len(recent) else 0.0
