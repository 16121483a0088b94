"""Model predictive control: try every sequence of the next few rungs against a predicted rate, play the best's first.

RobustMPC divides the prediction by one plus the worst relative error of the last five. (Pensieve's own script looks
sizes up one chunk late and carries errors over from video to video; this one does not.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.controllers.protocol import harmonic_mean, view

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

Floats = npt.NDArray[np.float64]
MAX_HORIZON = 9


def _best_first_rung(
    sizes_bytes: Floats,
    utilities: Floats,
    buffer_s: float,
    last_utility: float,
    bytes_per_s: float,
    chunk_s: float,
    rebuf_penalty: float,
    smooth_penalty: float,
) -> int:
    """Search all rung sequences over the rows of `sizes_bytes`, depth first; ties go to the lower rung.

    A branch is left when even the best utility from there on, without a stall or a switch, could not win.
    """
    depth, rungs = sizes_bytes.shape
    hope = np.zeros(depth + 1)
    for d in range(depth - 1, -1, -1):
        hope[d] = hope[d + 1] + utilities[d].max()
    value = np.zeros(depth + 1)
    buffer = np.zeros(depth + 1)
    previous = np.zeros(depth + 1)
    chosen = np.zeros(depth, dtype=np.int64)
    buffer[0], previous[0] = buffer_s, last_utility
    best, first, d = -np.inf, 0, 0
    while d >= 0:
        rung = chosen[d]
        if rung == rungs:
            d -= 1
            if d >= 0:
                chosen[d] += 1
            continue
        download_s = sizes_bytes[d, rung] / bytes_per_s
        stall_s = max(download_s - buffer[d], 0.0)
        utility = utilities[d, rung]
        total = value[d] + utility - rebuf_penalty * stall_s - smooth_penalty * abs(utility - previous[d])
        if total + hope[d + 1] <= best:
            chosen[d] += 1
        elif d == depth - 1:
            best, first = total, chosen[0]
            chosen[d] += 1
        else:
            value[d + 1] = total
            buffer[d + 1] = max(buffer[d] - download_s, 0.0) + chunk_s
            previous[d + 1] = utility
            d += 1
            chosen[d] = 0
    return first


best_first_rung: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(_best_first_rung)


class Mpc:
    """Plans over `horizon` chunks with the harmonic mean of the last five throughputs."""

    privileged = False
    robust = False

    def __init__(self, horizon: int = 5) -> None:
        if not 1 <= horizon <= MAX_HORIZON:
            raise ConfigError(f"horizon = {horizon}; choose 1 to {MAX_HORIZON} chunks")
        self.horizon = horizon

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the video and forget past errors."""
        self._session = episode
        self._utilities = episode.qoe.utilities(episode.video)
        self._predicted: float | None = None
        self._planned_with = 0.0
        self._errors: list[float] = []

    def act(self, observation: Observation) -> int:
        """The first rung of the best sequence."""
        session, seen = self._session, view(observation, self._session.video)
        ahead = slice(seen.next_chunk, seen.next_chunk + self.horizon)
        if seen.next_chunk >= session.video.chunks or not len(seen.throughputs):
            return 0
        rung: int = best_first_rung(
            session.video.sizes_bytes[ahead],
            self._utilities[ahead],
            seen.buffer_s,
            float(self._utilities[seen.next_chunk - 1, seen.last_rung]),
            self._predict(seen.throughputs),
            session.video.chunk_s,
            session.qoe.stall_penalty,
            session.qoe.smooth_penalty,
        )
        return rung

    def _predict(self, throughputs: Floats) -> float:
        """Bytes per second for the chunks to come."""
        actual = float(throughputs[-1])
        if self._predicted is not None:
            self._errors.append(abs(self._predicted - actual) / actual)
        self._predicted = harmonic_mean(throughputs)
        worst = max(self._errors[-5:], default=0.0) if self.robust else 0.0
        self._planned_with = self._predicted / (1.0 + worst)
        return self._planned_with

    def reason(self) -> dict[str, Any]:
        """What it planned with."""
        return {"estimate_kbps": self._planned_with / 125.0}


class RobustMpc(Mpc):
    """MPC that expects its worst recent error again."""

    robust = True
