"""`MiniGopQpEnv`: move the QPs of each mini-GOP under a bitrate. Gymnasium id `reelrl/MiniGopQP-v0`."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from numpy.typing import NDArray

from reelrl import names
from reelrl.content.clip import Clip
from reelrl.encode.clip_choice import opened
from reelrl.encode.minigop import record as minigop_record
from reelrl.encode.minigop.preparation import Preparation
from reelrl.encode.minigop.protocols import MAX_DELTA, Goal, MiniGopController, MiniGopFeedback, Situation
from reelrl.encode.minigop.reference import Account, RdCurve
from reelrl.encode.minigop.source import RANDOM_ACCESS, InProcessSource
from reelrl.encode.minigop.state import LIMIT, NAMES, observation
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.settings import EncoderSettings

Observation = NDArray[np.float32]
Video = str | Path | Clip


class MiniGopQpEnv(gymnasium.Env[Observation, NDArray[np.float32]], EzPickle):
    """How an AV1 encoder spreads a bitrate over time.

    ## Observation
    float32 vector of `minigop_state.NAMES`: complexity of this and the coming mini-GOPs, what the probe spent on
    them, what is left of bits and frames, what the last decisions cost. After the last mini-GOP it is zero.

    ## Action
    Box(-1, 1, (1,)): times 6 it is a delta in QP steps, whole or not, on the pyramid that the encoder itself would use.
    With `guide`, the name of a controller, it is added to that controller's delta instead.

    ## Reward
    dB of luma PSNR above the encoder's own curve at the bits spent; the episode's rewards add up to that of the clip.

    ## Cost
    `info["cost"]`: excess over the budget, relative to it ("vbr"), or overflow of the leaky bucket, relative to its
    size ("cbr"). Costs add up in the same way.

    ## Episode
    One step is one mini-GOP, the episode is the clip. What a decision led to is known `feedback_lag` steps later, and
    its reward and cost come then; the last step brings all that is owed. `info["gop_end"]` is true in the step that
    completes the costs of a GOP.

    ## Arguments
    clips     one clip or several, by name, path or as `Clip`; each episode draws one
    kbps      the budget; a pair is a range, drawn from evenly in octaves; None draws a QP from `qps` and takes what
              the encoder alone spends there
    encoder   settings; their structure decides between random access with a probe, and low delay
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(
        self,
        clips: Video | Sequence[Video],
        kbps: float | tuple[float, float] | None = None,
        *,
        qps: tuple[int, int] = (28, 52),
        encoder: EncoderSettings = RANDOM_ACCESS,
        goal: Goal | None = None,
        guide: str | MiniGopController | None = None,
        feedback_lag: int | None = None,
        buffer_s: float = 1.0,
        max_frames: int | None = None,
    ) -> None:
        EzPickle.__init__(
            self, clips, kbps, qps=qps, encoder=encoder, goal=goal, guide=guide, feedback_lag=feedback_lag,
            buffer_s=buffer_s, max_frames=max_frames,
        )  # fmt: skip
        self._source: InProcessSource | None = None
        videos: Sequence[Video] = [clips] if isinstance(clips, str | Path | Clip) else list(clips)
        if not videos:
            raise ConfigError("no clips; give at least one")
        self._videos = [video.name if isinstance(video, Clip) else str(video) for video in videos]
        self._kbps = None if kbps is None else _checked_range("kbps", kbps)
        self._qps = _checked_range("qps", qps)
        self._guide: MiniGopController | None = (
            names.make_controller(names.MINIGOP_CONTROLLERS, guide, foreign=True) if isinstance(guide, str) else guide
        )
        self._options: dict[str, Any] = {"goal": goal, "feedback_lag": feedback_lag, "buffer_s": buffer_s}
        self._prepared = [Preparation(opened(video, max_frames), encoder) for video in videos]
        self._curves: dict[tuple[int, int], RdCurve] = {}
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = spaces.Box(-LIMIT, LIMIT, (len(NAMES),), np.float32)
        self._seed: int | None = None
        self._situation: Situation | None = None
        self._finished: InProcessSource | None = None
        self._number = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a clip and a budget; `options` may name them: {"clip": 0, "kbps": 300}."""
        super().reset(seed=seed)
        self._stop()
        self._seed = seed if seed is not None else self._seed
        wanted = dict(options or {})
        self._number = int(wanted.pop("clip", self.np_random.integers(len(self._prepared))))
        kbps = float(wanted.pop("kbps", 0) or self._drawn_kbps())
        if wanted:
            raise ConfigError(
                f"reset options {sorted(wanted)} are unknown{names.did_you_mean(min(wanted), ('clip', 'kbps'))}"
            )
        prepared = self._prepared[self._number]
        self._source = source = prepared.source(kbps=kbps, **self._options)
        curve = self._curves.get((self._number, source.start_qp))
        if curve is None:
            curve = self._curves[self._number, source.start_qp] = RdCurve(
                prepared.clip, replace(prepared.settings, qp=source.start_qp)
            )
        self._account = Account(curve, source.episode)
        self._history: list[MiniGopFeedback] = []
        self._totals = {"reward": 0.0, "cost": 0.0}
        if self._guide is not None:
            self._guide.reset(seed or 0, source.episode)
        return self._observe(source), {"clip": source.episode.clip, "kbps": kbps, "start_qp": source.start_qp}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Code one mini-GOP."""
        situation, source = self._situation, self._source
        if situation is None or source is None:
            raise gymnasium.error.ResetNeeded("the clip has ended or not begun; call reset() first")
        delta = self._guided + MAX_DELTA * checked_action(action)
        # Whatever fails from here on ends the episode: the mini-GOP is in the stream, or half in it.
        self._situation = None
        source.reply(delta)
        seen = self._observe(source)
        feedback = self._feedback
        reward = cost = 0.0
        for one in feedback:
            gained, paid = self._account.add(one)
            reward, cost = reward + gained, cost + paid
        self._totals["reward"] += reward
        self._totals["cost"] += cost
        ended = self._situation is None
        info = {
            "cost": cost,
            "delta": delta,
            "request": asdict(situation.request),
            "feedback": [asdict(one) for one in feedback],
            "gop_end": any(one.gop_end for one in feedback),
            "rate_error": self._account.rate_error,
        }
        if ended:
            self._finished = source
            self._stop()
        return seen, reward, ended, False, info

    def episode_record(self) -> dict[str, Any]:
        """The last complete episode as a plain dict that `minigop_record.replay` codes again to the same bytes."""
        if self._finished is None:
            raise ConfigError("no episode is complete yet; step() to the end of one first")
        return minigop_record.record_of(
            self._finished, video=self._videos[self._number], seed=self._seed, totals=dict(self._totals)
        )

    def close(self) -> None:
        """End the encoder and its thread; `reset` starts another."""
        self._stop()

    def __del__(self) -> None:
        # Nobody listens to an error here, and the interpreter may be half gone.
        with suppress(Exception):
            self._stop()

    def _stop(self) -> None:
        source, self._source, self._situation = getattr(self, "_source", None), None, None
        if source is not None:
            source.close()

    def _observe(self, source: InProcessSource) -> Observation:
        """Ask the encoder for its next question; zeros when it has none."""
        request, self._feedback = source.request(), source.feedback()
        self._history += self._feedback
        if request is None:
            return np.zeros(len(NAMES), np.float32)
        self._situation = Situation(source.episode, request, self._history)
        self._guided = 0.0 if self._guide is None else float(self._guide.act(self._situation))
        return observation(self._situation, self._guided)

    def _drawn_kbps(self) -> float:
        if self._kbps is not None:
            low, high = self._kbps
            return float(np.exp2(self.np_random.uniform(np.log2(low), np.log2(high))))
        prepared = self._prepared[self._number]
        low, high = self._qps
        return prepared.kbps_at(int(self.np_random.integers(int(low), int(high) + 1)))


def checked_action(action: Any) -> float:
    """The one number of an action, within -1 to 1."""
    values = np.asarray(action, np.float64).reshape(-1)
    if values.shape != (1,):
        raise ConfigError(f"the action has {values.size} entries; give one number from -1 to 1")
    value = float(values[0])
    if not math.isfinite(value):
        raise InvalidStateError(f"the action is {value}; actions are finite")
    if abs(value) > 1 + 1e-6:
        raise ConfigError(f"the action is {value}; -1 to 1 is allowed")
    return value


def _checked_range(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    low, high = (value, value) if isinstance(value, int | float) else value
    if not 0 < low <= high < math.inf:
        raise ConfigError(f"{name} = {value}; give a number above zero, or a pair from low to high")
    return float(low), float(high)
