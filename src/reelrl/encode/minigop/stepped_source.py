"""What every environment over mini-GOPs shares: the encoder asks, an agent's action answers, feedback is scored."""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from reelrl.encode.minigop.protocols import MAX_DELTA, MiniGopSource, Situation
from reelrl.encode.minigop.reference import Account
from reelrl.encode.minigop.state import LIMIT, NAMES, observation
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from reelrl.encode.minigop.protocols import MiniGopController, MiniGopFeedback
    from reelrl.encode.minigop.reference import RdCurve

Observation = NDArray[np.float32]
Source = TypeVar("Source", bound=MiniGopSource)


class SteppedSource(gymnasium.Env[Observation, NDArray[np.float32]], Generic[Source]):
    """An encoder that asks before each mini-GOP, as an environment: one step is one mini-GOP, one episode one encode.

    Which encoder, and what its rewards are measured against, is up to the subclass: `_choose`, `_open` and `_curve`.

    guide      whose delta an action is added to; None where actions are deltas themselves
    max_delta  QP steps that an action of 1 stands for
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(self, guide: MiniGopController | None = None, max_delta: float = MAX_DELTA) -> None:
        self._guide, self._max_delta = guide, max_delta
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = spaces.Box(-LIMIT, LIMIT, (len(NAMES),), np.float32)
        self._source: Source | None = None
        self._situation: Situation | None = None
        self._finished: Source | None = None  # of the last whole episode
        self._number = 0  # of the video
        self._seed: int | None = None

    @abstractmethod
    def _choose(self, options: dict[str, Any]) -> tuple[int, float]:
        """Which video to code, and at how many kbit/s."""

    @abstractmethod
    def _open(self, number: int, kbps: float) -> Source:
        """Start the encoder."""

    @abstractmethod
    def _curve(self, number: int, kbps: float, source: Source) -> RdCurve:
        """What the encoder alone makes of the video near the budget."""

    def _facts(self, source: Source) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """What else `reset` should say in its info."""
        return {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an encode; `options` may name the video and its budget: {"clip": 0, "kbps": 300}."""
        super().reset(seed=seed)
        self._stop()
        self._seed = seed if seed is not None else self._seed
        self._number, kbps = self._choose(dict(options or {}))
        self._source = source = self._open(self._number, kbps)
        self._account = Account(self._curve(self._number, kbps, source), source.episode)
        self._history: list[MiniGopFeedback] = []
        self._totals = {"reward": 0.0, "cost": 0.0}
        if self._guide is not None:
            self._guide.reset(seed or 0, source.episode)
        return self._observe(source), {"clip": source.episode.clip, "kbps": kbps, **self._facts(source)}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Code one mini-GOP."""
        situation, source = self._situation, self._source
        if situation is None or source is None:
            raise gymnasium.error.ResetNeeded("the clip has ended or not begun; call reset() first")
        delta = self._guided + self._max_delta * checked_action(action)
        # Whatever fails from here on ends the episode: the mini-GOP is in the stream, or half in it.
        self._situation = None
        source.reply(delta)
        seen = self._observe(source)
        reward = cost = 0.0
        for report in self._feedback:
            gained, paid = self._account.add(report)
            reward, cost = reward + gained, cost + paid
        self._totals["reward"] += reward
        self._totals["cost"] += cost
        ended = self._situation is None
        info = {
            "cost": cost,
            "delta": delta,
            "request": asdict(situation.request),
            "feedback": [asdict(report) for report in self._feedback],
            "gop_end": any(report.gop_end for report in self._feedback),
            "rate_error": self._account.rate_error,
        }
        if ended:
            self._finished = source
            self._stop()
        return seen, reward, ended, False, info

    def close(self) -> None:
        """End the encoder; `reset` starts another."""
        self._stop()

    def __del__(self) -> None:
        # Nobody listens to an error here, and the interpreter may be half gone.
        with suppress(Exception):
            self._stop()

    def _stop(self) -> None:
        source, self._source, self._situation = getattr(self, "_source", None), None, None
        if source is not None:
            source.close()

    def _observe(self, source: Source) -> Observation:
        """Ask the encoder for its next question; zeros when it has none."""
        request, self._feedback = source.request(), source.feedback()
        self._history += self._feedback
        if request is None:
            return np.zeros(len(NAMES), np.float32)
        self._situation = Situation(source.episode, request, self._history)
        self._guided = 0.0 if self._guide is None else float(self._guide.act(self._situation))
        return observation(self._situation, self._guided)


def checked_action(action: Any) -> float:
    """The one number of an action, within -1 to 1."""
    (value,) = checked_actions(action, 1)
    return value


def checked_actions(action: Any, size: int) -> list[float]:
    """The numbers of an action, each within -1 to 1."""
    values: list[float] = np.asarray(action, np.float64).reshape(-1).tolist()
    if len(values) != size:
        wanted = "one number" if size == 1 else f"{size} numbers"
        raise ConfigError(f"the action has {len(values)} entries; give {wanted} from -1 to 1")
    for value in values:
        if not math.isfinite(value):
            raise InvalidStateError(f"the action is {value}; actions are finite")
        if abs(value) > 1 + 1e-6:
            raise ConfigError(f"the action is {value}; -1 to 1 is allowed")
    return values
