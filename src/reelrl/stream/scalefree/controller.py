"""The scale-free policy as a controller, and the file it lives in: safetensors, so that loading runs no code."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from reelrl.errors import ConfigError
from reelrl.stream.controllers.actor_file import load_actor, read_actor, save_actor
from reelrl.stream.controllers.protocol import shares
from reelrl.stream.controllers.weights import SCALE_FREE, SCALE_FREE_PENSIEVE
from reelrl.stream.scalefree.sizes import CAUTION, CONTEXT, RUNG

if TYPE_CHECKING:
    import numpy.typing as npt

    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation
    from reelrl.stream.scalefree.batch import ScaleFreeBatch
    from reelrl.stream.scalefree.network import ScaleFreePolicy

KIND = "scale-free"
_WHAT, _SIZES = "scale-free controller", ("hidden", "rung_hidden")
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
EASE_S = 120.0
SAFE_THRIFT = 3.0
MOST_THRIFT = 10.0


def save_scale_free(policy: ScaleFreePolicy, path: Path, facts: dict[str, Any]) -> None:
    """Write the actor; `facts` (how it was trained, how it scored) go with it."""
    save_actor(policy.actor, path, {"kind": KIND, "hidden": policy.hidden, "rung_hidden": policy.rung_hidden}, facts)


def load_scale_free(path: Path) -> tuple[ScaleFreePolicy, dict[str, Any]]:
    """The policy in a file, and the facts saved with it."""
    from reelrl.stream.scalefree.network import ScaleFreePolicy

    return load_actor(path, _WHAT, ScaleFreePolicy, _SIZES)


def actor_shapes(hidden: int, rung_hidden: int) -> dict[str, tuple[int, ...]]:
    """What the file of a policy of these sizes holds."""
    layers = {
        **{f"context.{number}": (hidden, CONTEXT if number == 0 else hidden) for number in (0, 2, 4)},
        "rung": (rung_hidden, RUNG),
        "mix": (rung_hidden, rung_hidden),
        "score": (1, rung_hidden),
    }
    weights: dict[str, tuple[int, ...]] = {f"{name}.weight": shape for name, shape in layers.items()}
    biases = {f"{name}.bias": shape[:1] for name, shape in layers.items()}
    shared = {"rung_context.weight": (rung_hidden, hidden), "mix_all.weight": (rung_hidden, 2 * rung_hidden)}
    return weights | biases | shared


class ScaleFree:
    """The greedy choice of the scale-free policy. Without a path, the one shipped.

    `caution` is what the viewer fears. 0: nothing, the link will hold. 1: it may break, and the best mean QoE over
    links that do and links that do not is asked for. Above 1 a second of a long stall costs so many times what QoE
    says, in full where the rate varies as a moving receiver's: a link's first outage gives no warning, and the default
    gives up a little of the mean for the worst tenth.

    `thrift` goes further. A second in a buffer that is half full counts as half a second (thrift 1) or a quarter (2):
    the buffer is filled before it is played with, and there when an outage comes. What was saved is spent again: over
    the last `ease_s` seconds of the video thrift falls to nothing.
    """

    privileged = False
    trained_on: ClassVar[dict[str, tuple[float, float]]] = TRAINED_ON

    def __init__(
        self,
        caution: float = CAUTION,
        thrift: float = 0.0,
        ease_s: float = EASE_S,
        path: str | Path | None = None,
    ) -> None:
        if not 0 <= caution < math.inf:
            raise ConfigError(f"caution = {caution}; give 0 (the link will hold), 1 (it may break) or more")
        if not 0 <= thrift <= MOST_THRIFT:
            raise ConfigError(f"thrift = {thrift}; give 0 (all of the buffer counts) to {MOST_THRIFT:g}")
        if not 0 <= ease_s < math.inf:
            raise ConfigError(f"ease_s = {ease_s}; give the seconds before the end over which thrift falls, 0 or more")
        self.path = SCALE_FREE if path is None else Path(path)
        weights, self.facts = read_actor(self.path, _WHAT, actor_shapes, _SIZES)
        self.caution, self.thrift, self.ease_s = caution, thrift, ease_s
        # As products take them: (inputs, outputs).
        self._weights = {name: np.ascontiguousarray(array.T) for name, array in weights.items()}
        self._warned = False

    @cached_property
    def policy(self) -> ScaleFreePolicy:
        """The net for torch: to train on, or to export. Decisions do without."""
        return load_scale_free(self.path)[0]

    def for_players(self, episode: EpisodeInfo, players: int) -> ScaleFreeBatch:
        """The same decisions for that many sessions of one video at once."""
        from reelrl.stream.scalefree.batch import ScaleFreeBatch  # compiles; training on a GPU does without

        video, rule, qoe = episode.video, episode.rule, episode.qoe
        rates, cap_s = video.bitrates_kbps / 1000.0, rule.buffer_cap_ms / 1000.0
        fears = (self.caution, self.thrift, self.ease_s)
        batch = ScaleFreeBatch(self._weights, video, qoe, cap_s, *fears, players)
        found = (video.rungs, video.chunk_s, rates[0], rates[-1], cap_s, batch.wishes.stall_penalty, qoe.smooth_penalty)
        self._check(dict(zip(self.trained_on, map(float, found), strict=True)))
        return batch

    def reset(self, seed: int, episode: EpisodeInfo) -> None:  # noqa: ARG002 - the protocol's
        """Take the video, the viewer's wishes and the buffer; forget the last session's link."""
        self._batch = self.for_players(episode, 1)

    def act(self, observation: Observation) -> int:
        """The rung."""
        return int(self._batch.act(observation[None])[0])

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """What each rung was worth to the policy in the last decision."""
        scores: npt.NDArray[np.float32] = self._batch.scores[0]
        return scores

    def reason(self) -> dict[str, Any]:
        """How much it liked each rung."""
        return {"preferences": shares(self.scores)}

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


class ScaleFreeSafe(ScaleFree):
    """For links that break for long: much thrift, to the end, at the price of quality where links hold."""

    def __init__(self, path: str | Path | None = None) -> None:
        super().__init__(1.0, SAFE_THRIFT, 0.0, path)


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
        super().__init__(0.0, path=SCALE_FREE_PENSIEVE if path is None else path)
