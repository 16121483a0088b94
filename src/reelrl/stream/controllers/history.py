"""What the learned baselines read: the last eight downloads, relative to their own mean rate.

A link ten times as fast with chunks ten times as large looks the same, so a net fitted to one ladder can be put in
front of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.stream.simulator.observation import B_IN_MB, BUFFER_NORM_FACTOR, S_LEN

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import Observation

Floats = npt.NDArray[np.float64]

HISTORY = 3 * S_LEN
_RECENT = slice(-5, None)


def mean_rates(observations: npt.NDArray[np.float32]) -> Floats:
    """Harmonic mean of the last five throughputs, bytes per second, for a batch of states (n, 6, columns)."""
    recent = observations[:, 2, _RECENT].astype(np.float64) * B_IN_MB
    seen = observations[:, 3, _RECENT] > 0
    slowness = np.where(seen, 1.0 / np.maximum(recent, 1e-9), 0.0).sum(axis=1)
    mean: Floats = seen.sum(axis=1) / np.maximum(slowness, 1e-12)
    return mean


def histories(observations: npt.NDArray[np.float32], rates: Floats) -> Floats:
    """(n, 24): logarithms of the last eight throughputs over `rates`, of the download times, and which were seen."""
    columns = slice(-S_LEN, None)
    seen = observations[:, 3, columns] > 0
    throughputs = np.maximum(observations[:, 2, columns].astype(np.float64) * B_IN_MB, 1e-9)
    times_s = np.maximum(observations[:, 3, columns].astype(np.float64) * BUFFER_NORM_FACTOR, 1e-3)
    parts = [np.where(seen, np.log(throughputs / rates[:, None]), 0.0), np.where(seen, np.log(times_s), 0.0), seen]
    return np.concatenate(parts, axis=1)


def one(observation: Observation) -> npt.NDArray[np.float32]:
    """A single state as a batch."""
    return np.asarray(observation, dtype=np.float32)[None]
