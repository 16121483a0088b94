"""A net that imitates the optimum, after Comyco (Huang et al., ACM MM 2019).

The expert knows the link: it finds the best of all plans for the next eight chunks from wherever the student has got to
(`reel fit abr comyco`). The student sees what every controller sees. Of Comyco its way of learning is reproduced, with
one change (the student is taught what every choice costs, not only which one is best); not its net, nor its QoE of
perceptual quality.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import policy_file
from reelrl.stream.controllers.history import HISTORY, histories, mean_rates, one
from reelrl.stream.controllers.weights import COMYCO
from reelrl.stream.simulator.observation import B_IN_MB, BUFFER_NORM_FACTOR

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

Floats = npt.NDArray[np.float64]


def input_count(rungs: int) -> int:
    """Length of what `student_inputs` gives."""
    return HISTORY + 4 + 2 * rungs


def student_inputs(observations: npt.NDArray[np.float32], rungs: int) -> npt.NDArray[np.float32]:
    """(n, inputs) of states (n, 6, columns): history, buffer, last rate, what is left, each rung's promised time."""
    rates = mean_rates(observations)
    promised_s = observations[:, 4, :rungs].astype(np.float64) * B_IN_MB / rates[:, None]
    buffer_s = observations[:, 1, -1:].astype(np.float64) * BUFFER_NORM_FACTOR
    parts = [
        histories(observations, rates),
        np.log1p(buffer_s),
        buffer_s / 30.0,
        observations[:, 0, -1:],
        observations[:, 5, -1:],
        np.log(promised_s + 1e-2),
        np.tanh((buffer_s - promised_s) / 10.0),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


class Comyco:
    """The student's greedy choice; without a path, the one that ships."""

    privileged = False

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else COMYCO
        self.net = policy_file.load(self.path)
        self.rungs = sum(self.net.options)
        if len(self.net.options) != 1 or self.net.inputs != input_count(self.rungs):
            raise CheckpointError(
                f"{self.path} has {self.net.inputs} inputs for {self.net.choices} choices, not "
                f"{input_count(self.rungs)} for one; give one that `reel fit abr comyco` saved"
            )

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Check that the ladder has as many rungs as the net."""
        if episode.video.rungs != self.rungs:
            raise ConfigError(
                f"{self.path.name} chooses among {self.rungs} rungs and the ladder has {episode.video.rungs}; "
                "fit one to this ladder with `reel fit abr comyco`"
            )

    def act(self, observation: Observation) -> int:
        """The rung."""
        return int(self.net.act(student_inputs(one(observation), self.rungs)[0])[0])
