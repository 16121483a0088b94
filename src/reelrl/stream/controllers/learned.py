"""A trained network as a controller, and the file it lives in: safetensors, so that loading runs no code."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import hub
from reelrl.runs.folder import RunFolder
from reelrl.stream.controllers.actor_file import kind_of, load_actor, save_actor
from reelrl.stream.controllers.network import MEMORY, AbrPolicy, remember, with_memory
from reelrl.stream.controllers.protocol import shares
from reelrl.stream.controllers.weights import SHIPPED
from reelrl.stream.data.ladders import PENSIEVE_CHUNK_S, PENSIEVE_KBPS

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import Controller, EpisodeInfo, Observation

BEST = "policy.safetensors"
LADDER_TOLERANCE = 1.25
"""A rung's rate may differ by this factor from the one that a policy was trained for before it says so."""


def save_policy(policy: AbrPolicy, path: Path, facts: dict[str, Any]) -> None:
    """Write the actor; `facts` (how it was trained, how it scored) go with it."""
    save_actor(policy.actor, path, {"rungs": policy.rungs, "hidden": policy.hidden, "columns": policy.columns}, facts)


def load_policy(path: Path) -> tuple[AbrPolicy, dict[str, Any]]:
    """The policy in a file, and the facts saved with it."""
    return load_actor(path, "controller", AbrPolicy, ("rungs", "columns", "hidden"))


def _policy_path(place: Path) -> Path:
    """The file itself, the best policy of a run, or that of "hub:user/name"."""
    place = hub.on_this_machine(place)
    if place.suffix == ".safetensors" or place.is_file():
        return place
    run = RunFolder(place)
    if run.stage != "abr":
        raise CheckpointError(f"{run.folder} is a run of `reel train {run.stage}`; give one of `reel train abr`")
    return run.artifact(BEST)


def load_learned(place: str | Path) -> Controller:
    """The controller in a policy file or a run of `reel train abr`, of whichever kind it is."""
    from reelrl.stream.scalefree.controller import KIND, ScaleFree

    path = _policy_path(Path(place))
    return ScaleFree(path=path) if kind_of(path) == KIND else Learned(path)


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
        self._logits = logits
        if self.sampled:
            logits = logits + self._rng.gumbel(size=logits.shape)
        return int(np.argmax(logits))

    def reason(self) -> dict[str, Any]:
        """How much it liked each rung."""
        return {"preferences": shares(self._logits)}
