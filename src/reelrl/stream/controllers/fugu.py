"""Planning with a learned predictor of download times, after Fugu (Yan et al., NSDI 2020).

A small net says how long a chunk of a given size will take, as a distribution: 21 classes of the time over what the
harmonic mean of the last five chunks promises, one set for each of the next five chunks. A plan over these chunks then
maximises the *expected* QoE by dynamic programming over the buffer: a likely stall costs its part, before it happens.

Unlike the original it sees no statistics of TCP (a simulated link has none), and it was fitted to links of the training
pool (`reel fit abr fugu`), not to a service's own traffic.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from reelrl.errors import CheckpointError
from reelrl.runs import policy_file
from reelrl.stream.controllers.history import HISTORY, histories, mean_rates, one
from reelrl.stream.controllers.protocol import view
from reelrl.stream.controllers.weights import FUGU

if TYPE_CHECKING:
    from reelrl.runs.policy_file import Policy
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

Floats = npt.NDArray[np.float64]

HORIZON = 5
EDGES = np.geomspace(1.0 / 3.0, 16.0, 20)
"""Between the classes of download time over promised time."""
INPUTS = HISTORY + 1 + HORIZON
GRID_S = 0.5


def predictor_inputs(history: Floats, promised_s: Floats, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """(n, INPUTS): the history, the time that the mean rate promises, how many chunks ahead (0 is the next)."""
    ahead = np.eye(HORIZON)[steps]
    return np.concatenate([history, np.log(promised_s)[:, None], ahead], axis=1).astype(np.float32)


def probabilities(net: Policy, inputs: npt.NDArray[np.float32]) -> Floats:
    """(n, 21): how likely each class is."""
    values = inputs
    for weight, bias in net.layers[:-1]:
        values = np.maximum(values @ weight.T + bias, 0.0)
    weight, bias = net.layers[-1]
    scores = (values @ weight.T + bias).astype(np.float64)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _expected_plan(
    times_s: Floats,
    shares: Floats,
    utilities: Floats,
    last_utilities: Floats,
    buffer_s: float,
    last_rung: int,
    chunk_s: float,
    cap_s: float,
    rebuf_penalty: float,
    smooth_penalty: float,
) -> int:
    """The first rung of the best plan; ties go to the lower rung.

    `times_s` and `shares` are (steps, rungs, classes); `utilities` of the coming chunks, `last_utilities` of the one
    before. Between the points of the grid of buffers, values are interpolated.
    """
    steps, rungs, classes = times_s.shape
    points = int(np.ceil(cap_s / GRID_S)) + 1
    after = np.zeros((rungs, points))  # what comes, by the rung before and the buffer
    worth = np.zeros(rungs)
    for step in range(steps - 1, -1, -1):
        before = utilities[step - 1] if step > 0 else last_utilities
        now = np.zeros((rungs, points))
        for point in range(points):
            # The first decision is taken at the real buffer, the others wherever the plan may lead.
            level_s = point * GRID_S if step > 0 else buffer_s
            for rung in range(rungs):
                value = utilities[step, rung]
                for k in range(classes):
                    took_s = times_s[step, rung, k]
                    share = shares[step, rung, k]
                    left_s = min(max(level_s - took_s, 0.0) + chunk_s, cap_s)
                    place = min(left_s / GRID_S, points - 1.0)
                    low = min(int(place), points - 2)
                    future = after[rung, low] + (place - low) * (after[rung, low + 1] - after[rung, low])
                    value += share * (future - rebuf_penalty * max(took_s - level_s, 0.0))
                worth[rung] = value
            if step == 0:
                best, first = -np.inf, 0
                for rung in range(rungs):
                    value = worth[rung] - smooth_penalty * abs(utilities[0, rung] - before[last_rung])
                    if value > best:
                        best, first = value, rung
                return first
            for last in range(rungs):
                best = -np.inf
                for rung in range(rungs):
                    best = max(best, worth[rung] - smooth_penalty * abs(utilities[step, rung] - before[last]))
                now[last, point] = best
        after = now
    return 0


expected_plan: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(_expected_plan)


class Fugu:
    """Plans over five chunks by expected QoE; without a path, with the predictor that ships."""

    privileged = False

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else FUGU
        self.net = policy_file.load(self.path)
        self._factors = np.asarray(self.net.facts.get("factors", ()), dtype=np.float64)
        if self.net.inputs != INPUTS or self._factors.shape != (len(EDGES) + 1,):
            raise CheckpointError(
                f"{self.path} has {self.net.inputs} inputs and {self._factors.size} classes of download times, not "
                f"{INPUTS} and {len(EDGES) + 1}; give one that `reel fit abr fugu` saved"
            )

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the video."""
        self._episode = episode
        self._utilities = episode.qoe.utilities(episode.video)

    def act(self, observation: Observation) -> int:
        """The first rung of the best plan."""
        episode, video = self._episode, self._episode.video
        seen = view(observation, video)
        if seen.next_chunk >= video.chunks or not len(seen.throughputs):
            return 0
        ahead = slice(seen.next_chunk, seen.next_chunk + HORIZON)
        times_s, shares = self._predict(observation, video.sizes_bytes[ahead])
        rung: int = expected_plan(
            times_s,
            shares,
            self._utilities[ahead],
            self._utilities[seen.next_chunk - 1],
            seen.buffer_s,
            seen.last_rung,
            video.chunk_s,
            episode.rule.buffer_cap_ms / 1000.0,
            episode.qoe.stall_penalty,
            episode.qoe.smooth_penalty,
        )
        return rung

    def _predict(self, observation: Observation, sizes_bytes: Floats) -> tuple[Floats, Floats]:
        """Times and their shares, (steps, rungs, classes), for chunks of these sizes."""
        steps, rungs = sizes_bytes.shape
        batch = one(observation)
        rate = mean_rates(batch)
        promised_s = (sizes_bytes / rate[0]).ravel()
        history = np.repeat(histories(batch, rate), steps * rungs, axis=0)
        shares = probabilities(self.net, predictor_inputs(history, promised_s, np.repeat(np.arange(steps), rungs)))
        times_s = promised_s[:, None] * self._factors
        return times_s.reshape(steps, rungs, -1), shares.reshape(steps, rungs, -1)
