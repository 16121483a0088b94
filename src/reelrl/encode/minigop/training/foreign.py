"""A foreign encoder as an environment to train in: one episode is one encode by its program.

Its rewards need a curve to be measured against: where no baseline is known, each video is first coded twice with the
encoder's own QPs moved by -4 and +4 steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.evaluation.baseline import read_baseline
from reelrl.encode.minigop.reference import MeasuredCurve
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.stepped_source import SteppedSource
from reelrl.encode.minigop.training.env import base_of, drawn_rate
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.encode.minigop.training.videos import TrainingVideo

REFERENCE_DELTAS = (-4.0, 4.0)


class ForeignEncoderEnv(SteppedSource[HandshakeSource]):
    """Steps as those of `MiniGopQpEnv`; the program's own flags say what is coded and where the stream goes."""

    def __init__(self, settings: MiniGopTraining, videos: list[TrainingVideo]) -> None:
        self._settings, self._videos = settings, videos
        self.clips: list[Clip] = []  # the program opens its files itself
        for video in videos:
            if not video.options:
                raise ConfigError(f"--encoder codes files by its own flags; give {video.name} as --videos, not --clip")
            if video.kbps is None and settings.kbps is None:
                raise ConfigError(f"{video.name} has no bitrate; give --kbps, or --bitrate among its flags")
        base = base_of(settings)
        super().__init__(None if base is None else load_minigop_controller(base), settings.max_delta)
        self._baselines = read_baseline(Path(settings.baseline_stats)) if settings.baseline_stats else {}
        self._curves: dict[tuple[int, float], MeasuredCurve] = {}

    def draw_kbps(self, index: int, rng: np.random.Generator) -> float:
        """The rate among the video's flags, else one drawn from the range."""
        named = self._videos[index].kbps
        return drawn_rate(self._settings.kbps or (1.0, 1.0), rng) if named is None else named

    def write_outputs(self) -> None:
        """Nothing to do: the program wrote them."""

    def _choose(self, options: dict[str, Any]) -> tuple[int, float]:
        return int(options["clip"]), float(options["kbps"])

    def _open(self, number: int, kbps: float) -> HandshakeSource:
        # Measured first: there is one folder of files, and one program at a time can be met in it.
        if (number, kbps) not in self._curves:
            points = self._baselines.get(self._videos[number].name, [])
            deltas = (0.0,) if points else REFERENCE_DELTAS
            runs = [run_controller(self._start(number, kbps), CrfReplay(delta)) for delta in deltas]
            self._curves[number, kbps] = MeasuredCurve.of_runs(runs, points)
        return self._start(number, kbps)

    def _curve(self, number: int, kbps: float, source: HandshakeSource) -> MeasuredCurve:  # noqa: ARG002
        return self._curves[number, kbps]

    def _facts(self, source: HandshakeSource) -> dict[str, Any]:  # noqa: ARG002
        return {"clip": self._videos[self._number].name}  # as it was given, whatever the program calls it

    def _start(self, number: int, kbps: float) -> HandshakeSource:
        video, encoder = self._videos[number], str(self._settings.encoder)
        video.make_log(encoder)
        rate = [] if video.kbps is not None else ["--bitrate", f"{kbps:.0f}", "--rc-mode", "1"]
        return HandshakeSource(self._settings.rl_dir, [encoder, *video.words, *rate], clip=video.name, kbps=kbps)
