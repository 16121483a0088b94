"""`MiniGopQpEnv`: move the QPs of each mini-GOP under a bitrate. Gymnasium id `reelrl/MiniGopQP-v0`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils import EzPickle

from reelrl import names
from reelrl.content.clip import Clip
from reelrl.encode.clip_choice import opened
from reelrl.encode.minigop import record as minigop_record
from reelrl.encode.minigop.protocols import MAX_DELTA
from reelrl.encode.minigop.reference import RdCurve
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS, InProcessSource
from reelrl.encode.minigop.source.preparation import Preparation
from reelrl.encode.minigop.stepped_source import SteppedSource
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.protocols import Goal, MiniGopController

ClipChoice = str | Path | Clip

DEFAULT_CLIP = "generated:street?size=192x128&frames=81"  # five mini-GOPs


class MiniGopQpEnv(SteppedSource[InProcessSource], EzPickle):
    """How an AV1 encoder spreads a bitrate over time.

    ## Observation
    float32 vector of `state.NAMES`: complexity of this and the coming mini-GOPs, what the probe spent on
    them, what is left of bits and frames, what the last decisions cost. After the last mini-GOP it is zero.

    ## Action
    Box(-1, 1, (1,)): times `max_delta` it is a delta in QP steps, whole or not, on the pyramid that the encoder itself
    would use. With `guide`, the name of a controller, it is added to that controller's delta instead.

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
    clips     one clip or several, by name, path or as `Clip`; each episode draws one; by default a generated street
    kbps      the budget; a pair is a range, drawn from evenly in octaves; None draws a QP from `qps` and takes what
              the encoder alone spends there
    encoder   settings; their structure decides between random access with a probe, and low delay
    """

    def __init__(
        self,
        clips: ClipChoice | Sequence[ClipChoice] = DEFAULT_CLIP,
        kbps: float | tuple[float, float] | None = None,
        *,
        qps: tuple[int, int] = (28, 52),
        encoder: EncoderSettings = RANDOM_ACCESS,
        goal: Goal | None = None,
        guide: str | MiniGopController | None = None,
        feedback_lag: int | None = None,
        buffer_s: float = 1.0,
        max_frames: int | None = None,
        max_delta: float = MAX_DELTA,
    ) -> None:
        EzPickle.__init__(
            self, clips, kbps, qps=qps, encoder=encoder, goal=goal, guide=guide, feedback_lag=feedback_lag,
            buffer_s=buffer_s, max_frames=max_frames, max_delta=max_delta,
        )  # fmt: skip
        made = (
            names.make_controller(names.MINIGOP_CONTROLLERS, guide, foreign=True) if isinstance(guide, str) else guide
        )
        super().__init__(made, max_delta)
        videos: Sequence[ClipChoice] = [clips] if isinstance(clips, str | Path | Clip) else list(clips)
        if not videos:
            raise ConfigError("no clips; give at least one")
        self._videos = [video.name if isinstance(video, Clip) else str(video) for video in videos]
        self._kbps = None if kbps is None else checked_range("kbps", kbps)
        self._qps = checked_range("qps", qps)
        self._options: dict[str, Any] = {"goal": goal, "feedback_lag": feedback_lag, "buffer_s": buffer_s}
        self._prepared = [Preparation(opened(video, max_frames), encoder) for video in videos]
        self._curves: dict[tuple[int, int], RdCurve] = {}

    def episode_record(self) -> dict[str, Any]:
        """The last complete episode as a plain dict that `record.replay` codes again to the same bytes."""
        if self._finished is None:
            raise ConfigError("no episode is complete yet; step() to the end of one first")
        return minigop_record.record_of(
            self._finished, video=self._videos[self._number], seed=self._seed, totals=dict(self._totals)
        )

    def _choose(self, options: dict[str, Any]) -> tuple[int, float]:
        number = int(options.pop("clip", self.np_random.integers(len(self._prepared))))
        kbps = float(options.pop("kbps", 0) or self._drawn_kbps(number))
        if options:
            raise ConfigError(
                f"reset options {sorted(options)} are unknown{names.did_you_mean(min(options), ('clip', 'kbps'))}"
            )
        return number, kbps

    def _open(self, number: int, kbps: float) -> InProcessSource:
        return self._prepared[number].source(kbps=kbps, **self._options)

    def _facts(self, source: InProcessSource) -> dict[str, Any]:
        return {"start_qp": source.start_qp}

    def _curve(self, number: int, kbps: float, source: InProcessSource) -> RdCurve:  # noqa: ARG002
        return self._curve_around(number, source.start_qp)

    def _curve_around(self, number: int, qp: int) -> RdCurve:
        if (number, qp) not in self._curves:
            prepared = self._prepared[number]
            self._curves[number, qp] = RdCurve(prepared.clip, replace(prepared.settings, qp=qp))
        return self._curves[number, qp]

    def _drawn_kbps(self, number: int) -> float:
        if self._kbps is not None:
            low, high = self._kbps
            return float(np.exp2(self.np_random.uniform(np.log2(low), np.log2(high))))
        low, high = self._qps
        return self._prepared[number].kbps_at(int(self.np_random.integers(int(low), int(high) + 1)))


def checked_range(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    """A range above zero; one number is a range of its own."""
    low, high = (value, value) if isinstance(value, int | float) else value
    if not 0 < low <= high < math.inf:
        raise ConfigError(f"{name} = {value}; give a number above zero, or a pair from low to high")
    return float(low), float(high)
