"""MPC and RobustMPC for many players at once, compiled: the same decisions as `mpc`, to the last bit.

    planner = MpcBatch(episode, players=4096)
    rungs = planner.act(observations)            (players, 6, columns) -> (players,)

A state with one measurement is a session's first: that player's errors are forgotten, as videos end at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.controllers.mpc import MAX_HORIZON, best_first_rung
from reelrl.stream.simulator.observation import B_IN_MB, BUFFER_NORM_FACTOR

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo

LAST = 5  # throughputs that the prediction is the mean of, and errors that are remembered


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _decide(
    states: Any,
    memory: Any,
    errors: Any,
    sizes: Any,
    utilities: Any,
    kbps: Any,
    chunk_s: float,
    rebuf_penalty: float,
    smooth_penalty: float,
    horizon: int,
    robust: bool,
    rungs: Any,
) -> None:
    """`memory` is (players, 2): the last prediction and how many errors there are; `errors` a ring of the last five."""
    chunks = sizes.shape[0]
    columns = states.shape[2]
    for i in range(states.shape[0]):
        seen = 0
        count = 0
        slowness = 0.0
        for k in range(columns):
            seen += states[i, 3, k] > 0
        # The mean runs over the last five that were measured, oldest first: the order of the sum is part of the result.
        for k in range(columns):
            if states[i, 3, k] > 0:
                count += 1
                if count > seen - LAST:
                    slowness += 1.0 / (np.float64(states[i, 2, k]) * B_IN_MB)
        chunk = chunks - round(np.float64(states[i, 5, columns - 1]) * chunks)
        if chunk >= chunks or seen == 0:
            rungs[i] = 0
            continue
        if seen == 1:
            memory[i, 1] = -1
        actual = np.float64(states[i, 2, columns - 1]) * B_IN_MB
        if memory[i, 1] >= 0:
            errors[i, int(memory[i, 1]) % LAST] = abs(memory[i, 0] - actual) / actual
        memory[i, 1] += 1
        memory[i, 0] = min(seen, LAST) / slowness
        worst = 0.0
        if robust:
            for k in range(min(int(memory[i, 1]), LAST)):
                worst = max(worst, errors[i, k])
        share = np.float64(states[i, 0, columns - 1]) * kbps[-1]
        last = np.abs(kbps - share).argmin()
        rungs[i] = best_first_rung(
            sizes[chunk : chunk + horizon],
            utilities[chunk : chunk + horizon],
            np.float64(states[i, 1, columns - 1]) * BUFFER_NORM_FACTOR,
            utilities[chunk - 1, last],
            memory[i, 0] / (1.0 + worst),
            chunk_s,
            rebuf_penalty,
            smooth_penalty,
        )


class MpcBatch:
    """One planner for `players` sessions of one video; with `robust=False` plain MPC."""

    def __init__(self, episode: EpisodeInfo, players: int, horizon: int = 5, *, robust: bool = True) -> None:
        if not 1 <= horizon <= MAX_HORIZON:
            raise ConfigError(f"horizon = {horizon}; choose 1 to {MAX_HORIZON} chunks")
        if players < 1:
            raise ConfigError(f"players = {players}; give 1 or more")
        self.players = players
        self._episode = episode
        self._horizon = horizon
        self._robust = robust
        self._sizes = np.ascontiguousarray(episode.video.sizes_bytes)
        self._utilities = np.ascontiguousarray(episode.qoe.utilities(episode.video))
        self._memory = np.zeros((players, 2))
        self._errors = np.zeros((players, LAST))

    def act(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Everyone's rung."""
        if observations.ndim != 3 or len(observations) != self.players:
            raise ConfigError(
                f"observations have shape {observations.shape}; give ({self.players}, 6, columns), one state per player"
            )
        rungs = np.empty(self.players, dtype=np.int64)
        _decide(
            np.ascontiguousarray(observations),
            self._memory,
            self._errors,
            self._sizes,
            self._utilities,
            self._episode.video.bitrates_kbps,
            self._episode.video.chunk_s,
            self._episode.qoe.stall_penalty,
            self._episode.qoe.smooth_penalty,
            self._horizon,
            self._robust,
            rungs,
        )
        return rungs
