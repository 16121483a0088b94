"""`FrameQpEnv`: choose the quantiser of every frame that libaom codes. Gymnasium id `reelrl/FrameQP-v0`."""

from __future__ import annotations

import math
from contextlib import suppress
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
from reelrl.encode.codecs.aom.first_pass import TWO_PASS
from reelrl.encode.frameqp import record as frame_record
from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.protocols import MAX_STEPS, FrameSituation
from reelrl.encode.frameqp.reference import FrameAccount, RuleReference
from reelrl.encode.frameqp.run import run_frame_controller
from reelrl.encode.frameqp.source.preparation import FramePreparation
from reelrl.encode.frameqp.state import LIMIT, NAMES, RECENT, observation
from reelrl.encode.minigop.env import checked_range
from reelrl.encode.minigop.stepped_source import checked_actions
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.frameqp.protocols import FrameQpController
    from reelrl.encode.frameqp.source.in_process import FrameQpSource

Observation = NDArray[np.float32]
ClipChoice = str | Path | Clip

DEFAULT_CLIP = "generated:street?size=96x64&frames=48"

_BUDGETS_PER_OCTAVE = 8  # a budget that is drawn lies on this grid, so that its reference is made once


class FrameQpEnv(gymnasium.Env[Observation, NDArray[np.float32]], EzPickle):
    """How libaom spreads a bitrate over the frames it codes, in two passes with look-ahead.

    ## Observation
    float32 vector of `state.NAMES`: kind and layer of the frame, what libaom itself would do with it, its first-pass
    and look-ahead statistics, what is left of bits and frames, what the last decisions cost. After the last frame it
    is zero.

    ## Action
    Box(-1, 1, (1,)): times `max_steps` it is a delta in steps of the quantiser index (1 to 255) on what libaom itself
    would use at this budget. With `guide`, the name of a controller, it is added to that controller's delta instead.
    With `gop_lengths` there is a second entry: how many frames the next GOP may show, from 4 (-1) to 32 (1: as long as
    libaom wants it); what the last step before that GOP said holds.

    ## Reward
    dB above the rule `rate-model` at the bits spent, half by the mean of the frames' PSNR, half by the PSNR of the mean
    error. The episode's rewards add up to that of the clip; actions of 0 with `guide="rate-model"` earn nothing.

    ## Cost
    `info["cost"]`: excess over the budget, relative to it. Costs add up in the same way.

    ## Episode
    One step is one coded frame: key, golden, ARF, inner ARF, leaf or coded overlay. The episode is the clip. What a
    decision cost is known at the next one; its pictures count in the step that shows them.

    ## Arguments
    clips         one clip or several, by name, path or as `Clip`; each episode draws one; by default a generated street
    kbps          the budget; a pair is a range, drawn from evenly in octaves (in eighths); None draws a QP from `qps`
                  and takes what libaom's constant quality spends there
    encoder       settings, made from `TWO_PASS`
    keep_delta_q  libaom keeps its own quantiser offsets inside frames, by a private field of libaom; False: it does
                  not, and the field is left alone
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(
        self,
        clips: ClipChoice | Sequence[ClipChoice] = DEFAULT_CLIP,
        kbps: float | tuple[float, float] | None = None,
        *,
        qps: tuple[int, int] = (28, 52),
        encoder: EncoderSettings = TWO_PASS,
        guide: str | FrameQpController | None = None,
        keep_delta_q: bool = True,
        gop_lengths: bool = False,
        max_frames: int | None = None,
        max_steps: float = MAX_STEPS,
    ) -> None:
        EzPickle.__init__(
            self, clips, kbps, qps=qps, encoder=encoder, guide=guide, keep_delta_q=keep_delta_q,
            gop_lengths=gop_lengths, max_frames=max_frames, max_steps=max_steps,
        )  # fmt: skip
        videos: Sequence[ClipChoice] = [clips] if isinstance(clips, str | Path | Clip) else list(clips)
        if not videos:
            raise ConfigError("no clips; give at least one")
        made = names.make_controller(names.FRAME_CONTROLLERS, guide, foreign=True) if isinstance(guide, str) else guide
        self._guide: FrameQpController | None = made
        self._max_steps, self._gop_lengths = max_steps, gop_lengths
        self._videos = [video.name if isinstance(video, Clip) else str(video) for video in videos]
        self._kbps = None if kbps is None else checked_range("kbps", kbps)
        self._qps = checked_range("qps", qps)
        self._prepared = [
            FramePreparation(opened(video, max_frames), encoder, keep_delta_q=keep_delta_q) for video in videos
        ]
        self._references: dict[tuple[int, float], RuleReference] = {}
        self.action_space = spaces.Box(-1, 1, (2 if gop_lengths else 1,), np.float32)
        self.observation_space = spaces.Box(-LIMIT, LIMIT, (len(NAMES),), np.float32)
        self._source: FrameQpSource | None = None
        self._situation: FrameSituation | None = None
        self._finished: FrameQpSource | None = None  # of the last whole episode
        self._number = 0  # of the video
        self._seed: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an encode; `options` may name the video and its budget: {"clip": 0, "kbps": 300}."""
        super().reset(seed=seed)
        self._stop()
        self._seed = seed if seed is not None else self._seed
        self._number, kbps = self._choose(dict(options or {}))
        self._account = FrameAccount(self._reference(self._number, kbps))
        self._source = source = self._prepared[self._number].source(kbps=kbps)
        self._totals = {"reward": 0.0, "cost": 0.0}
        if self._guide is not None:
            self._guide.reset(seed or 0, source.episode)
        return self._observe(source), {"clip": source.episode.clip, "kbps": kbps, "qp": source.settings.qp}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Code one frame."""
        situation, source = self._situation, self._source
        if situation is None or source is None:
            raise gymnasium.error.ResetNeeded("the clip has ended or not begun; call reset() first")
        move, *length = checked_actions(action, 2 if self._gop_lengths else 1)
        delta = self._guided + self._max_steps * move
        # Whatever fails from here on ends the episode: the frame is in the stream, or half in it.
        self._situation = None
        source.reply(delta, gop_limit_of(length[0]) if length else None)
        seen = self._observe(source)
        reward, cost = self._account.add(source.packets)
        self._totals["reward"] += reward
        self._totals["cost"] += cost
        done = source.coded[-1]
        info = {
            "cost": cost,
            "delta": delta,
            "frame": done.asked.frame,
            "kind": done.asked.kind,
            "layer": done.asked.layer,
            "gop": done.asked.gop,
            "qindex": done.qindex,
            "bits": done.bits,
            "rate_error": self._account.rate_error,
        }
        ended = self._situation is None
        if ended:
            self._finished = source
            self._stop()
        return seen, reward, ended, False, info

    def kbps_at(self, clip: int, qp: int) -> float:
        """What libaom's constant quality spends on a clip."""
        return self._prepared[clip].kbps_at(qp)

    def close(self) -> None:
        """End the encoder; `reset` starts another."""
        self._stop()

    def episode_record(self) -> dict[str, Any]:
        """The last complete episode as a plain dict that `record.replay` codes again to the same bytes."""
        if self._finished is None:
            raise ConfigError("no episode is complete yet; step() to the end of one first")
        return frame_record.record_of(
            self._finished, video=self._videos[self._number], seed=self._seed, totals=dict(self._totals)
        )

    def __del__(self) -> None:
        # Nobody listens to an error here, and the interpreter may be half gone.
        with suppress(Exception):
            self._stop()

    def _stop(self) -> None:
        source, self._source, self._situation = getattr(self, "_source", None), None, None
        if source is not None:
            source.close()

    def _observe(self, source: FrameQpSource) -> Observation:
        """Ask libaom for its next question; zeros when it has none."""
        request = source.request()
        if request is None:
            return np.zeros(len(NAMES), np.float32)
        errors = [packet.luma_sse_in_8_bits for packet in source.packets[-RECENT:]]
        self._situation = FrameSituation(source.episode, request, source.coded, source.own, source.deltas, errors)
        self._guided = 0.0 if self._guide is None else float(self._guide.act(self._situation))
        return observation(self._situation, self._guided)

    def _choose(self, options: dict[str, Any]) -> tuple[int, float]:
        number = int(options.pop("clip", self.np_random.integers(len(self._prepared))))
        kbps = float(options.pop("kbps", 0) or self._drawn_kbps(number))
        if options:
            raise ConfigError(
                f"reset options {sorted(options)} are unknown{names.did_you_mean(min(options), ('clip', 'kbps'))}"
            )
        return number, kbps

    def _drawn_kbps(self, number: int) -> float:
        if self._kbps is None:
            low, high = self._qps
            return self.kbps_at(number, int(self.np_random.integers(int(low), int(high) + 1)))
        low, high = self._kbps
        octaves = self.np_random.uniform(0, math.log2(high / low))
        return min(low * math.exp2(round(_BUDGETS_PER_OCTAVE * octaves) / _BUDGETS_PER_OCTAVE), high)

    def _reference(self, number: int, kbps: float) -> RuleReference:
        """What the rule makes of the clip at the budget: coded once, when it is first needed."""
        if (number, kbps) not in self._references:
            prepared = self._prepared[number]
            run = run_frame_controller(prepared.source(kbps=kbps), FrameRateModel())
            self._references[number, kbps] = RuleReference(run, prepared.curve_probes(kbps))
        return self._references[number, kbps]


def gop_limit_of(action: float) -> int:
    """Frames that a GOP may show: 4 for -1, 32 for 1, in fours."""
    return 4 * round(4.5 + 3.5 * min(max(action, -1.0), 1.0))
