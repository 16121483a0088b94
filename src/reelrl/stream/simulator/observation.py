"""The state that a controller sees: float32 (6, 8), newest column last.

| row | meaning                                                            |
|-----|--------------------------------------------------------------------|
| 0   | bitrate of the last chunk / highest bitrate                        |
| 1   | buffer seconds / 10                                                |
| 2   | throughput, chunk bytes / delay ms / 1000 (megabytes per second)   |
| 3   | download time, delay ms / 1000 / 10                                |
| 4   | the next chunk's size at each rung, in MB, in the first columns    |
| 5   | chunks remaining / total chunks                                    |
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError

S_INFO = 6
S_LEN = 8
BUFFER_NORM_FACTOR = 10.0
DEFAULT_QUALITY = 1
M_IN_K = 1000.0
B_IN_MB = 1_000_000.0

StateShape = Literal["pensieve", "wide"]


def state_columns(rungs: int, state: str = "pensieve") -> int:
    """Columns of the state; row 4 needs one per rung."""
    if state not in get_args(StateShape):
        raise ConfigError(f"state = {state!r}; choose one of {', '.join(get_args(StateShape))}")
    if rungs > S_LEN and state != "wide":
        raise ConfigError(
            f"the ladder has {rungs} rungs and the state {S_LEN} columns; pass state='wide' for a state of "
            f"({S_INFO}, {rungs})"
        )
    return max(S_LEN, rungs)


def push_column(
    state: npt.NDArray[np.float32],
    rate_share: float,
    buffer_s: float,
    size_bytes: float,
    delay_ms: float,
    next_mb: npt.NDArray[np.float32],
    remain_share: float,
    keep_junk: bool,
) -> npt.NDArray[np.float32]:
    """The state after one more download. `keep_junk` leaves in row 4 what rolling wraps around, as Pensieve does."""
    pushed = np.empty_like(state)
    pushed[:, :-1] = state[:, 1:]
    pushed[:, -1] = (
        rate_share,
        buffer_s / BUFFER_NORM_FACTOR,
        size_bytes / delay_ms / M_IN_K,
        delay_ms / M_IN_K / BUFFER_NORM_FACTOR,
        state[4, 0],
        remain_share,
    )
    row = pushed[4]
    if not keep_junk:
        row[:] = 0.0
    row[: len(next_mb)] = next_mb
    return pushed
