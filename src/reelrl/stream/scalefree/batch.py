"""The scale-free policy on a CPU core, for a batch of players of one video.

    chooser = ScaleFree().for_players(episode, 4096)
    rungs = chooser.act(observations)            (players, 6, columns) -> (players,)

A state with one measurement is a session's first, as videos end at any time.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.scalefree import compiled
from reelrl.stream.scalefree.sizes import AHEAD, CONTEXT, HISTORY, MEMORY, RUNG

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Video
    from reelrl.stream.simulator.qoe import Qoe

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
BLOCK = 256
"""Players at a time: what lies between the layers then fits a core's cache."""


class Wishes(NamedTuple):
    """What a session is about. Penalties are for utilities scaled so that the best is worth 1."""

    chunk_s: float
    cap_s: float
    thrift: float
    ease_s: float
    stall_penalty: float
    caution: float
    smooth_penalty: float


class Offers(NamedTuple):
    """What the video has to choose from."""

    sizes_mbit: Numbers  # (chunks, rungs), as the next
    utilities: Numbers
    relative_sizes: Numbers  # of chunks to their nominal size, then AHEAD ones
    rates_mbps: Numbers


class ScaleFreeBatch:
    """`players` sessions of one video, each with a memory of its own link."""

    def __init__(
        self,
        weights: dict[str, Floats],
        video: Video,
        qoe: Qoe,
        cap_s: float,
        caution: float,
        thrift: float,
        ease_s: float,
        players: int,
    ) -> None:
        if players < 1:
            raise ConfigError(f"players = {players}; give 1 or more")
        utilities = qoe.utilities(video)
        # A ladder of one worth (one rung, say) has nothing to choose; any scale will do.
        best = max(float(utilities.max()), 1e-9)
        numbers = (video.chunk_s, cap_s, thrift, ease_s, qoe.stall_penalty / best, caution, qoe.smooth_penalty)
        self.players = players
        self.wishes = Wishes(*map(float, numbers))
        self.scores = np.empty((players, video.rungs), dtype=np.float32)
        relative = np.concatenate([video.relative_sizes(), np.ones(AHEAD)])
        self._offers = Offers(video.sizes_bytes * 8e-6, utilities / best, relative, video.bitrates_kbps / 1000.0)
        self._rates, self._delays = np.zeros((players, HISTORY)), np.zeros((players, HISTORY))
        self._memory, self._seen = np.zeros((players, MEMORY)), np.zeros(players, dtype=np.int64)
        self._net = _Net(weights, min(players, BLOCK), video.rungs)

    def act(self, observations: Floats) -> npt.NDArray[np.int64]:
        """Everyone's rung; `scores` has what each rung was worth to the policy."""
        if observations.ndim != 3 or len(observations) != self.players:
            raise ConfigError(
                f"observations have shape {observations.shape}; give ({self.players}, 6, columns), one state per player"
            )
        for start in range(0, self.players, BLOCK):
            part = slice(start, min(start + BLOCK, self.players))
            link = (self._rates[part], self._delays[part], self._memory[part], self._seen[part])
            states = np.ascontiguousarray(observations[part])
            self._net.score(states, link, self._offers, self.wishes, self.scores[part])
        rungs: npt.NDArray[np.int64] = self.scores.argmax(axis=1)
        return rungs

    def __deepcopy__(self, _: dict[int, Any]) -> ScaleFreeBatch:
        """The same players at the same moment; nobody changes net and video."""
        twin = copy.copy(self)
        for name in ("scores", "_rates", "_delays", "_memory", "_seen"):
            setattr(twin, name, getattr(self, name).copy())
        return twin


class _Net:
    """The layers, and room for what lies between them."""

    def __init__(self, weights: dict[str, Floats], players: int, rungs: int) -> None:
        self._weights = weights
        layers = sorted({name.rpartition(".")[0] for name in weights if name.startswith("context.")})
        self._tower = [(weights[f"{layer}.weight"], weights[f"{layer}.bias"]) for layer in layers]
        width = len(weights["rung.bias"])
        self._context, self._rungs = _room(players, CONTEXT), _room(players * rungs, RUNG)
        self._hidden = [_room(players, len(bias)) for _, bias in self._tower]
        self._shared, self._together = _room(players, width), _room(players, 2 * width)
        self._each, self._mixed = _room(players * rungs, width), _room(players * rungs, width)

    def score(
        self, states: Floats, link: tuple[Any, Any, Any, Any], offers: Offers, wishes: Wishes, scores: Floats
    ) -> None:
        players, rungs = scores.shape
        net = self._weights
        context, each_seen = self._context[:players], self._rungs[: players * rungs]
        compiled.see(states, *link, offers, wishes, context, each_seen)
        summary = context
        for (weight, bias), room in zip(self._tower, self._hidden, strict=True):
            summary = np.matmul(summary, weight, out=room[:players])
            compiled.activate(summary, bias)
        shared = np.matmul(summary, net["rung_context.weight"], out=self._shared[:players])
        each = np.matmul(each_seen, net["rung.weight"], out=self._each[: players * rungs])
        together = self._together[:players]
        compiled.activate_rungs(each, shared, net["rung.bias"], together)
        np.matmul(together, net["mix_all.weight"], out=shared)
        mixed = np.matmul(each, net["mix.weight"], out=self._mixed[: players * rungs])
        compiled.score(mixed, shared, net["mix.bias"], net["score.weight"][:, 0], net["score.bias"][0], scores)


def _room(rows: int, columns: int) -> Floats:
    return np.empty((rows, columns), dtype=np.float32)
