"""The encoders that mini-GOP training steers: in this process, or a foreign program met in a folder of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from reelrl.encode.codecs.whole_clip import Encoded
from reelrl.encode.handshake.pass_log import PassLog
from reelrl.encode.handshake.reference_encoder import Coded
from reelrl.encode.minigop.controllers.rules import DEFAULTS
from reelrl.encode.minigop.env import MiniGopQpEnv
from reelrl.encode.minigop.evaluation.baseline import read_baseline
from reelrl.encode.minigop.reference import MeasuredCurve
from reelrl.encode.minigop.source.in_process import LOW_DELAY, RANDOM_ACCESS
from reelrl.encode.minigop.source.starting_qp import starting_qp
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.minigop.reference import RdCurve
    from reelrl.encode.minigop.source.in_process import InProcessSource
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.encode.minigop.training.foreign import ForeignEncoderEnv
    from reelrl.encode.minigop.training.videos import TrainingVideo

_OCTAVES_PER_QP = 0.1  # roughly what one QP step takes from the bits; used to search, not to predict


def make_environment(
    settings: MiniGopTraining, videos: list[TrainingVideo], clips: list[Clip] | None = None
) -> TrainingEnv | ForeignEncoderEnv:
    """`clips` are the pictures of the videos where somebody has opened them already."""
    if settings.encoder is None:
        return TrainingEnv(settings, videos, clips)
    from reelrl.encode.minigop.training.foreign import ForeignEncoderEnv

    return ForeignEncoderEnv(settings, videos)


def base_of(settings: MiniGopTraining) -> str | None:
    """The controller whose decisions are corrected; None where actions are deltas themselves."""
    if settings.base == "none":
        return None
    # A foreign encoder shows no plan: there is nothing that a rate model could look ahead at.
    default = DEFAULTS["low_delay" if settings.encoder else settings.structure]
    return settings.base or default


def drawn_rate(rates: tuple[float, float], rng: np.random.Generator) -> float:
    """A rate from the range, evenly in octaves."""
    return float(np.exp2(rng.uniform(*np.log2(rates))))


class TrainingEnv(MiniGopQpEnv):
    """The environment of `encode`, over videos with options of their own."""

    def __init__(self, settings: MiniGopTraining, videos: list[TrainingVideo], clips: list[Clip] | None = None) -> None:
        self.training, self.videos = settings, videos
        self.clips = clips or [video.open(settings.frames) for video in videos]
        super().__init__(
            self.clips,
            qps=settings.qps,
            encoder=encoder_settings(settings, videos),
            guide=base_of(settings),
            max_delta=settings.max_delta,
        )
        self._baselines = read_baseline(Path(settings.baseline_stats)) if settings.baseline_stats else {}
        self._near: dict[tuple[int, float], int] = {}  # crf's QP by video and budget

    def draw_kbps(self, index: int, rng: np.random.Generator) -> float:
        """The rate that the video's options name, else one drawn: from the range, or by what crf would spend."""
        named, rates = self.videos[index].kbps, self.training.kbps
        if named is not None:
            return named
        if rates is not None:
            return drawn_rate(rates, rng)
        low, high = self.training.qps
        qp = int(rng.integers(low, high + 1))
        drawn = self._prepared[index].kbps_at(qp)
        self._near[index, drawn] = qp
        return drawn

    def _open(self, number: int, kbps: float) -> InProcessSource:
        self._options["start_qp"] = self._start_qp(number, kbps)
        return super()._open(number, kbps)

    def _curve(self, number: int, kbps: float, source: InProcessSource) -> RdCurve:  # noqa: ARG002
        """What the encoder alone gives at the budget: probes around it, or the points of --baseline-stats."""
        clip = self._prepared[number].clip
        own = self._curve_around(number, self._crf_near(number, kbps))
        points = self._baselines.get(clip.name) or (self._baselines and self._baselines.get(clip.content_hash))
        return MeasuredCurve.through(points, like=own, clip=clip) if points else own

    def _crf_near(self, index: int, kbps: float) -> int:
        """The QP at which the encoder alone spends about `kbps`: where the probe stands may be far from it."""
        if (index, kbps) not in self._near:
            prepared = self._prepared[index]
            qp = starting_qp(prepared.clip, prepared.settings, kbps)
            for _ in range(3):
                step = round(np.log2(prepared.kbps_at(qp) / kbps) / _OCTAVES_PER_QP)
                qp = min(max(qp + step, 1), 63)
            self._near[index, kbps] = qp
        return self._near[index, kbps]

    def _start_qp(self, index: int, kbps: float) -> int | None:
        """Where the video's first pass stood, if it has one; a pass for one rate says little about another."""
        video, prepared = self.videos[index], self._prepared[index]
        logged_qp = video.start_qp(prepared.clip, prepared.settings, kbps)
        low, high = self.training.kbps or (0, 1)
        return logged_qp if video.kbps is not None or low == high else None

    def write_outputs(self) -> None:
        """What the video's options ask for of the last episode: the stream, a line per frame, a log."""
        source, options = self._finished, self.videos[self._number].options
        if source is None or not options.keys() & {"--o", "--csv", "--stat-out"}:
            return
        encoded = Encoded(source.clip, source.settings, tuple(source.packets))
        coded = Coded(encoded, PassLog.of(source.clip, source.start_qp, source.packets), "by training")
        if "--o" in options:
            encoded.save(options["--o"])
        if "--csv" in options:
            coded.save_csv(options["--csv"])
        if "--stat-out" in options:
            coded.log.save(options["--stat-out"])


def encoder_settings(settings: MiniGopTraining, videos: list[TrainingVideo]) -> EncoderSettings:
    """Of the encoder in this process."""
    presets = {video.options["--preset"] for video in videos if "--preset" in video.options}
    if len(presets) > 1:
        raise ConfigError(f"the videos ask for presets {', '.join(sorted(presets))}; one training has one")
    preset = int(presets.pop()) if presets else settings.preset
    default = RANDOM_ACCESS if settings.structure == "random_access" else LOW_DELAY
    return replace(default, preset=preset, keyint=settings.keyint)


class TwoSided(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A second cost beside the excess: what of the budget was not spent, relative to it.

    The reward is measured at the bits spent, whatever they are; without this a policy that always saves would be as
    good as one that meets the rate.
    """

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._shortfall = 0.0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._shortfall = self._shortfall, max(-float(info["rate_error"]), 0.0)
        info = {**info, "cost": np.array([info["cost"], self._shortfall - before], np.float32)}
        return observation, reward, terminated, truncated, info
