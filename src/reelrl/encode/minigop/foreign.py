"""A foreign encoder as an environment to train in: one episode is one encode by its program.

Its rewards need a curve to be measured against: where no baseline is known, each video is first coded twice with the
encoder's own QPs moved by -4 and +4 steps.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.baseline import read_baseline
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.env import checked_action
from reelrl.encode.minigop.measured_curve import MeasuredCurve
from reelrl.encode.minigop.protocols import Situation
from reelrl.encode.minigop.reference import Account
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.state import LIMIT, NAMES, observation
from reelrl.encode.minigop.training_envs import base_of, drawn_rate
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.encode.minigop.protocols import MiniGopFeedback
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.encode.minigop.videos import Video

REFERENCE_DELTAS = (-4.0, 4.0)


class Foreign(gymnasium.Env[Any, Any]):
    """Steps as those of `MiniGopQpEnv`; the program's own flags say what is coded and where the stream goes."""

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it as a plain class attribute

    def __init__(self, settings: MiniGopTraining, videos: list[Video]) -> None:
        self._settings, self._videos = settings, videos
        for video in videos:
            if not video.options:
                raise ConfigError(f"--encoder codes files by its own flags; give {video.name} as --videos, not --clip")
            if video.kbps is None and settings.kbps is None:
                raise ConfigError(f"{video.name} has no bitrate; give --kbps, or --bitrate among its flags")
        base = base_of(settings)
        self._guide = None if base is None else load_minigop_controller(base)
        self._baselines = read_baseline(Path(settings.baseline_stats)) if settings.baseline_stats else {}
        self._curves: dict[tuple[int, float], MeasuredCurve] = {}
        self.observation_space = spaces.Box(-LIMIT, LIMIT, (len(NAMES),), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self._source: HandshakeSource | None = None
        self._situation: Situation | None = None

    def draw_kbps(self, index: int, chance: np.random.Generator) -> float:
        """The rate among the video's flags, else one drawn from the range."""
        named = self._videos[index].kbps
        return drawn_rate(self._settings.kbps or (1.0, 1.0), chance) if named is None else named

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the encoder on the video and rate that `options` name: {"clip": 0, "kbps": 300}."""
        super().reset(seed=seed)
        self.close()
        index, kbps = int((options or {})["clip"]), float((options or {})["kbps"])
        curve = self._curve(index, kbps)
        self._source = source = self._start(index, kbps)
        self._account = Account(curve, source.episode)
        self._history: list[MiniGopFeedback] = []
        if self._guide is not None:
            self._guide.reset(seed or 0, source.episode)
        return self._observe(source), {"clip": self._videos[index].name, "kbps": kbps}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        situation, source = self._situation, self._source
        if situation is None or source is None:
            raise gymnasium.error.ResetNeeded("the encode has ended or not begun; call reset() first")
        delta = self._guided + self._settings.max_delta * checked_action(action)
        self._situation = None
        source.reply(delta)
        seen = self._observe(source)
        scored = [self._account.add(one) for one in self._feedback]
        info = {
            "cost": sum(cost for _, cost in scored),
            "delta": delta,
            "request": asdict(situation.request),
            "feedback": [asdict(one) for one in self._feedback],
            "gop_end": any(one.gop_end for one in self._feedback),
            "rate_error": self._account.rate_error,
        }
        ended = self._situation is None
        if ended:
            self.close()
        return seen, float(sum(reward for reward, _ in scored)), ended, False, info

    def write_outputs(self) -> None:
        """Nothing to do: the program wrote them."""

    def close(self) -> None:
        source, self._source, self._situation = self._source, None, None
        if source is not None:
            source.close()

    def _observe(self, source: HandshakeSource) -> Any:
        request, self._feedback = source.request(), source.feedback()
        self._history += self._feedback
        if request is None:
            return np.zeros(len(NAMES), np.float32)
        self._situation = Situation(source.episode, request, self._history)
        self._guided = 0.0 if self._guide is None else float(self._guide.act(self._situation))
        return observation(self._situation, self._guided)

    def _start(self, index: int, kbps: float) -> HandshakeSource:
        video, encoder = self._videos[index], str(self._settings.encoder)
        video.make_log(encoder)
        rate = [] if video.kbps is not None else ["--bitrate", f"{kbps:.0f}", "--rc-mode", "1"]
        return HandshakeSource(self._settings.rl_dir, [encoder, *video.words, *rate], clip=video.name, kbps=kbps)

    def _curve(self, index: int, kbps: float) -> MeasuredCurve:
        """What the encoder alone gives, measured once for a video and rate."""
        if (index, kbps) not in self._curves:
            points = self._baselines.get(self._videos[index].name, [])
            deltas = (0.0,) if points else REFERENCE_DELTAS
            runs = [run_controller(self._start(index, kbps), CrfReplay(delta)) for delta in deltas]
            self._curves[index, kbps] = MeasuredCurve.of_runs(runs, points)
        return self._curves[index, kbps]
