"""The scale-free policy as a controller, and the file it lives in: safetensors, so that loading runs no code."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch

from reelrl.errors import ConfigError
from reelrl.stream.controllers.actor_file import load_actor, save_actor
from reelrl.stream.controllers.protocol import shares, view
from reelrl.stream.controllers.weights import SCALE_FREE, SCALE_FREE_PENSIEVE
from reelrl.stream.scalefree.features import AHEAD, MEMORY_S, Offer, Player, features, measured, no_history
from reelrl.stream.scalefree.network import ScaleFreePolicy
from reelrl.stream.scalefree.one_player import OnePlayer
from reelrl.stream.scalefree.random_videos import relative_sizes

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation

KIND = "scale-free"
CAUTION = 2.0
RESTLESS = 0.35
"""The deviation of the log rate, over two minutes, from which a link counts as restless."""
# What it was trained on; beyond it the policy still answers, and says once that nobody has seen how well.
TRAINED_ON = {
    "rungs": (2, 12),
    "seconds per chunk": (1.0, 10.0),
    "lowest Mbit/s": (0.08, 1.5),
    "highest Mbit/s": (0.096, 100.0),
    "seconds of buffer": (8.0, 120.0),
    "stall penalty / best utility": (0.1, 4.0),
    "switch penalty": (0.0, 3.0),
}


def save_scale_free(policy: ScaleFreePolicy, path: Path, facts: dict[str, Any]) -> None:
    """Write the actor; `facts` (how it was trained, how it scored) go with it."""
    save_actor(policy.actor, path, {"kind": KIND, "hidden": policy.hidden, "rung_hidden": policy.rung_hidden}, facts)


def load_scale_free(path: Path) -> tuple[ScaleFreePolicy, dict[str, Any]]:
    """The policy in a file, and the facts saved with it."""
    return load_actor(path, "scale-free controller", ScaleFreePolicy, ("hidden", "rung_hidden"))


class Wishes(NamedTuple):
    """What a session is about, in plain numbers; penalties are for utilities scaled so that the best is worth 1."""

    chunk_s: float
    cap_s: float
    stall_penalty: float
    smooth_penalty: float
    caution: float
    rates_mbps: np.ndarray
    utilities: np.ndarray  # (chunks, rungs)
    relative_sizes: np.ndarray  # of chunks to their nominal size, then AHEAD ones

    def caution_at(self, deviation: float) -> float:
        """How much more a stall costs on a link of such a deviation."""
        return 1.0 + (self.caution - 1.0) * min(deviation / RESTLESS, 1.0)


class ScaleFree:
    """The greedy choice of the scale-free policy. Without a path, the one shipped.

    `caution` multiplies what a stall costs in the policy's eyes, in full on a link whose rate varies as a moving
    receiver's, and not at all on a steady one: such links break, and a link's first outage gives no warning. 1 asks for
    the best mean QoE alone; the default gives up a little of it for the worst tenth of links that break.
    """

    privileged = False
    trained_on: ClassVar[dict[str, tuple[float, float]]] = TRAINED_ON

    def __init__(self, caution: float = CAUTION, path: str | Path | None = None) -> None:
        if not 0 < caution < math.inf:
            raise ConfigError(f"caution = {caution}; it multiplies the cost of a stall: give a number above 0")
        self.path = SCALE_FREE if path is None else Path(path)
        self.policy, self.facts = load_scale_free(self.path)
        self.caution = caution
        self._warned = False

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the video, the viewer's wishes and the buffer; forget the last session's link."""
        video = episode.video
        utilities = episode.qoe.utilities(video)
        # A ladder of one worth (one rung, say) has nothing to choose; any scale will do.
        best = max(float(utilities.max()), 1e-9)
        self._video = video
        self._utilities = utilities / best
        self._relative = np.concatenate([relative_sizes(video), np.ones(AHEAD)])
        cap_s = episode.rule.buffer_cap_ms / 1000.0
        stall = episode.qoe.stall_penalty / best
        self._player = Player(
            _row(video.chunk_s),
            _row(cap_s),
            _row(stall),
            _row(episode.qoe.smooth_penalty),
            _row(video.bitrates_kbps[-1] / 1000.0),
            torch.as_tensor(video.bitrates_kbps / 1000.0, dtype=torch.float32)[None],
            torch.ones(1, video.rungs, dtype=torch.bool),
        )
        self._history = no_history(1)
        self.wishes = Wishes(
            video.chunk_s,
            cap_s,
            stall,
            episode.qoe.smooth_penalty,
            self.caution,
            video.bitrates_kbps / 1000.0,
            self._utilities,
            self._relative,
        )
        rates = video.bitrates_kbps / 1000.0
        found = (video.rungs, video.chunk_s, rates[0], rates[-1], cap_s, stall, episode.qoe.smooth_penalty)
        self._check(dict(zip(self.trained_on, map(float, found), strict=True)))

    def _check(self, found: dict[str, float]) -> None:
        outside = [
            f"{name} {found[name]:g} (trained on {low:g} to {high:g})"
            for name, (low, high) in self.trained_on.items()
            if not low * 0.999 <= found[name] <= high * 1.001
        ]
        if outside and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.path.name} is used outside what it was trained on: {', '.join(outside)}; "
                "compare it with robustmpc before you rely on it",
                stacklevel=2,
            )

    def _cautious(self) -> Player:
        deviation = self._history.memory[:, 2 * len(MEMORY_S) - 1].sqrt()
        restless = (deviation / RESTLESS).clamp_max(1.0)
        return self._player._replace(stall_penalty=self._player.stall_penalty * (1.0 + (self.caution - 1.0) * restless))

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        newest = observation[:, -1]
        self._history = measured(self._history, _row(newest[2] * 8.0), _row(newest[3] * 10.0), _row(newest[1] * 10.0))
        chunk = min(seen.next_chunk, self._video.chunks - 1)
        offer = Offer(
            _rows(self._video.sizes_bytes[chunk] * 8e-6),
            _rows(self._utilities[chunk]),
            _rows(self._relative[chunk + 1 : chunk + 1 + AHEAD]),
            _row(self._utilities[max(chunk - 1, 0), seen.last_rung]),
            _row(self._video.chunks - chunk),
        )
        with torch.no_grad():
            context, rungs = features(self._cautious(), offer, self._history)
            self._scores = self.policy.scores(context, rungs, torch.ones(1, self._video.rungs))[0].numpy()
        return int(self._scores.argmax())

    def reason(self) -> dict[str, Any]:
        """How much it liked each rung."""
        return {"preferences": shares(self._scores)}

    def for_one_player(self) -> OnePlayer:
        """The same decisions without torch, for a service."""
        return OnePlayer(self)


class ScaleFreePensieve(ScaleFree):
    """The same net, trained for Pensieve's ladder, buffer and QoE alone, and for the best mean."""

    trained_on: ClassVar[dict[str, tuple[float, float]]] = {
        "rungs": (6, 6),
        "seconds per chunk": (4.0, 4.0),
        "lowest Mbit/s": (0.3, 0.3),
        "highest Mbit/s": (4.3, 4.3),
        "seconds of buffer": (60.0, 60.0),
        "stall penalty / best utility": (1.0, 1.0),
        "switch penalty": (1.0, 1.0),
    }

    def __init__(self, path: str | Path | None = None) -> None:
        super().__init__(1.0, SCALE_FREE_PENSIEVE if path is None else path)


def _row(number: float) -> torch.Tensor:
    return torch.tensor([number], dtype=torch.float32)


def _rows(numbers: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(numbers, dtype=torch.float32)[None]
