"""Pensieve-PPO's released network as a controller: `pensieve-ppo=nn_model_ep_155400.pth`.

Its file holds two state dicts, actor and critic; only the actor is read, and only as tensors (`weights_only`), so that
loading runs no code. The architecture is that of its public code: each row of Pensieve's state through a layer of its
own, one layer over all of them, one output per rung.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs.policy_file import check_finite
from reelrl.storage.regular_files import check_regular
from reelrl.stream.simulator.observation import S_INFO, S_LEN

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

Floats = npt.NDArray[np.float32]

# Layers of the actor, in the order of the state's rows, and how many columns of the row each reads; 0: one per rung.
_ROWS = (
    ("fc1_actor", 1),
    ("fc2_actor", 1),
    ("conv1_actor", S_LEN),
    ("conv2_actor", S_LEN),
    ("conv3_actor", 0),
    ("fc3_actor", 1),
)
_MERGE, _HEAD = "fc4_actor", "pi_head"


def load_actor(path: Path) -> dict[str, Floats]:
    """The actor's arrays, their shapes checked."""
    import torch

    try:
        check_regular(path, follow_links=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of older versions of torch are announced, and read
            saved: Any = torch.load(path, map_location="cpu", weights_only=True)
        actor = {name: np.asarray(tensor, dtype=np.float32) for name, tensor in saved[0].items()}
        _check_shapes(actor)
        check_finite(actor)
    except Exception as error:
        # Whatever a foreign file makes torch raise, the file is not what was asked for.
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path} holds no actor of Pensieve-PPO ({str(reason).splitlines()[0] if str(reason) else 'empty'}); "
            "give a nn_model_ep_*.pth of its public repository"
        ) from error
    return actor


def _check_shapes(actor: dict[str, Floats]) -> None:
    rungs, features = actor[f"{_HEAD}.weight"].shape
    inputs = {name: columns or rungs for name, columns in _ROWS}
    wanted = {name: (features, columns) for name, columns in inputs.items()}
    wanted |= {_MERGE: (features, features * S_INFO), _HEAD: (rungs, features)}
    for name, shape in wanted.items():
        found = actor[f"{name}.weight"].shape, actor[f"{name}.bias"].shape
        if found != (shape, shape[:1]):
            raise ValueError(f"{name} has shapes {found}, not {(shape, shape[:1])}")


class PensievePpo:
    """The greedy choice of Pensieve-PPO's actor; with `sampled`, a draw as in its own test."""

    privileged = False

    def __init__(self, path: str | Path | None = None, sampled: bool = False) -> None:
        if path is None:
            raise ConfigError(
                "pensieve-ppo has no weights of its own; give the file that its authors publish, as in "
                "pensieve-ppo=nn_model_ep_155400.pth"
            )
        self.path = Path(path)
        self.sampled = sampled
        self._actor = load_actor(self.path)
        self.rungs = len(self._actor[f"{_HEAD}.bias"])
        self._rng = np.random.default_rng(0)

    def reset(self, seed: int, episode: EpisodeInfo) -> None:
        """Check that the ladder has as many rungs as the network."""
        if episode.video.rungs != self.rungs:
            raise ConfigError(
                f"{self.path.name} chooses among {self.rungs} rungs and the ladder has {episode.video.rungs}; "
                f"give a ladder of {self.rungs} rungs, or another controller"
            )
        self._rng = np.random.default_rng(seed)

    def act(self, observation: Observation) -> int:
        """The rung."""
        scores = self.scores(observation)
        if self.sampled:
            scores = scores + self._rng.gumbel(size=scores.shape).astype(np.float32)
        return int(np.argmax(scores))

    def scores(self, observation: Observation) -> Floats:
        """Preference for each rung."""
        parts = []
        for row, (name, columns) in zip(observation, _ROWS, strict=True):
            # Histories end in the newest column, next sizes begin in the first.
            values = row[: self.rungs] if columns == 0 else row[-columns:]
            parts.append(np.maximum(self._layer(name, values), 0.0))
        merged = np.maximum(self._layer(_MERGE, np.concatenate(parts)), 0.0)
        return self._layer(_HEAD, merged)

    def _layer(self, name: str, values: Floats) -> Floats:
        result: Floats = self._actor[f"{name}.weight"] @ values + self._actor[f"{name}.bias"]
        return result
