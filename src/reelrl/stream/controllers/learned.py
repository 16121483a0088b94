"""A trained network as a controller, and the file it lives in: safetensors, so that loading runs no code."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.errors import CheckpointError, ConfigError, shown
from reelrl.runs.folder import RunFolder
from reelrl.runs.policy_file import check_finite
from reelrl.storage import tensor_file
from reelrl.storage.files import write_atomic
from reelrl.storage.plain_data import parse_object
from reelrl.storage.regular_files import check_regular
from reelrl.stream.controllers.network import MEMORY, AbrPolicy, remember, with_memory
from reelrl.stream.controllers.weights import SHIPPED
from reelrl.stream.data.ladders import PENSIEVE_CHUNK_S, PENSIEVE_KBPS

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import Controller, EpisodeInfo, Observation

BEST = "policy.safetensors"
LARGEST_SIZE = 4096
LADDER_TOLERANCE = 1.25
"""A rung's rate may differ by this factor from the one that a policy was trained for before it says so."""


def save_policy(policy: AbrPolicy, path: Path, facts: dict[str, Any]) -> None:
    """Write the actor; `facts` (how it was trained, how it scored) go with it."""
    tensors = {name: tensor.detach().cpu().numpy().copy() for name, tensor in policy.actor.state_dict().items()}
    shape = {"rungs": policy.rungs, "hidden": policy.hidden, "columns": policy.columns}
    write_atomic(path, tensor_file.to_bytes(tensors, {"shape": json.dumps(shape), "facts": json.dumps(facts)}))


def load_policy(path: Path) -> tuple[AbrPolicy, dict[str, Any]]:
    """The policy in a file, and the facts saved with it."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
        shape, facts = parse_object(metadata["shape"]), parse_object(metadata["facts"])
        check_finite(tensors)
        policy = AbrPolicy(*(_size(shape, name) for name in ("rungs", "columns", "hidden")))
        policy.actor.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} holds no controller ({reason}); give one that `reel train abr` saved") from error
    return policy, facts


def _size(shape: dict[str, Any], name: str) -> int:
    # Bounded before a network of that size is made: the weights are compared only afterwards.
    value = shape[name]
    if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} is {shown(value)}, not 1 to {LARGEST_SIZE}")
    return value


def _policy_path(place: Path) -> Path:
    """The file itself, or the best policy of a run."""
    if place.suffix == ".safetensors" or place.is_file():
        return place
    run = RunFolder(place)
    if run.stage != "abr":
        raise CheckpointError(f"{run.folder} is a run of `reel train {run.stage}`; give one of `reel train abr`")
    return run.artifact(BEST)


def load_learned(place: str | Path) -> Controller:
    """The controller in a policy file or a run of `reel train abr`, of whichever kind it is."""
    from reelrl.stream.scalefree.controller import ScaleFree, is_scale_free

    path = _policy_path(Path(place))
    return ScaleFree(path=path) if is_scale_free(path) else Learned(path)


class Learned:
    """The greedy choice of a trained policy; with `sampled=True`, a draw from it. Without a path, the one shipped."""

    privileged = False

    def __init__(self, path: str | Path | None = None, sampled: bool = False) -> None:
        self.path = SHIPPED if path is None else _policy_path(Path(path))
        self.policy, self.facts = load_policy(self.path)
        self.sampled = sampled
        self._rng = np.random.default_rng(0)
        self._memory = torch.zeros(1, MEMORY)
        self._warned = False

    def reset(self, seed: int, episode: EpisodeInfo) -> None:
        """Check that the ladder is the one that it was trained for: as many rungs, about the same rates and chunks."""
        if episode.video.rungs != self.policy.rungs:
            raise ConfigError(
                f"{self.path.name} chooses among {self.policy.rungs} rungs and the ladder has {episode.video.rungs}; "
                "take `scalefree`, which plays any ladder, or train one for this ladder with `reel train abr`"
            )
        self._check_ladder(episode)
        self._rng = np.random.default_rng(seed)
        self._memory = torch.zeros(1, MEMORY)

    def _check_ladder(self, episode: EpisodeInfo) -> None:
        rates = np.asarray(self.facts.get("rates_kbps", PENSIEVE_KBPS), dtype=np.float64)
        chunk_s = float(self.facts.get("chunk_s", PENSIEVE_CHUNK_S))
        video = episode.video
        off = float(np.abs(np.log(video.bitrates_kbps / rates)).max()) if len(rates) == video.rungs else 0.0
        if not self._warned and (off > np.log(LADDER_TOLERANCE) or abs(video.chunk_s / chunk_s - 1.0) > 0.1):
            self._warned = True
            warnings.warn(
                f"{self.path.name} was trained for rungs of {rates.round().tolist()} kbit/s, chunks of {chunk_s:g} s, "
                f"not {video.bitrates_kbps.round().tolist()} and {video.chunk_s:g} s; `scalefree` plays any ladder",
                stacklevel=2,
            )

    def act(self, observation: Observation) -> int:
        """The rung."""
        with torch.no_grad():
            state = torch.from_numpy(np.ascontiguousarray(observation))[None]
            self._memory = remember(self._memory, state)
            logits = self.policy.logits(with_memory(state, self._memory))[0].numpy()
        if self.sampled:
            logits = logits + self._rng.gumbel(size=logits.shape)
        return int(np.argmax(logits))
