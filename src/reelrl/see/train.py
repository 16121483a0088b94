"""One stream, one learner, one run folder: watched, stopped, continued to the same bits.

trainer = AutoEncoderTrainer(settings, seed, run, device="cpu")
trainer.resume()               # to the newest checkpoint, if there is one
trainer.train(on_frame)        # "done" or "ended" (the source did); raises Interrupted after Ctrl+C

A checkpoint holds the learner, the baselines, the half-filled window of metrics.jsonl and the source's position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor

from reelrl.content.feeds.kinds import START, Position
from reelrl.errors import ConfigError, ContentError
from reelrl.runs.checkpoints import Checkpoints, restoring
from reelrl.runs.progress import spaced
from reelrl.runs.saving import Saving
from reelrl.see.execution import Replay
from reelrl.see.frames.source import FrameSource
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures import baselines
from reelrl.see.measures.baselines import StreamScores
from reelrl.see.monitor import performance as monitor
from reelrl.see.monitor.performance import PerformanceMonitor, TensorBoardLogger, figures_of
from reelrl.see.monitor.windows import MeanWindow
from reelrl.see.settings import FRAME_SIZE, AutoEncoderSettings
from reelrl.see.weights import save_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.runs.checkpoints import Checkpoint
    from reelrl.runs.folder import Run
    from reelrl.see.monitor.viewer import Viewer
    from reelrl.see.result import LearnResult

Outcome = Literal["done", "ended"]
COLUMNS = (*monitor.FIGURES, *baselines.FIGURES)
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class AutoEncoderTraining:
    """What is watched, for how long, and how often something is written."""

    ALIASES: ClassVar[dict[str, str]] = {"keep": "keep_checkpoints"}

    source: str
    frames: int = 10_000
    log_every: int = 100
    """Frames per line of metrics.jsonl; TensorBoard has every frame."""
    picture_every: int = 500
    """Frames between pictures and histograms in TensorBoard."""
    save_every: int = 5_000
    keep_checkpoints: int = 3
    """The newest so many stay; older ones are removed."""
    model: AutoEncoderSettings = field(default_factory=AutoEncoderSettings)

    def __post_init__(self) -> None:
        for name in ("frames", "log_every", "picture_every", "save_every", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 1 or more")


class AutoEncoderTrainer:
    """Learns from a source in a run folder."""

    def __init__(
        self,
        settings: AutoEncoderTraining,
        seed: int,
        run: Run,
        device: str | torch.device = "cpu",
        viewer: Viewer | None = None,
    ) -> None:
        self.settings, self.seed, self.run, self.viewer = settings, seed, run, viewer
        self.device = torch.device(device)
        run.checkpoints = Checkpoints(run.checkpoints.folder, keep=settings.keep_checkpoints)
        self.model = StreamingAutoEncoder(settings.model, self.device)
        self.baselines = StreamScores(FRAME_SIZE).to(self.device)
        self.window = Window(run, settings.log_every)
        self.performance = PerformanceMonitor()
        self._measure = Replay(self._score)
        self.position = START
        self.frames_done = 0

    def resume(self) -> bool:
        """Go back to the run's newest checkpoint, if it has one."""
        saved = self.run.resume()
        if saved is None:
            return False
        with restoring(saved.folder):
            self.model.load_training_state(tensors_below(saved, "learner.") | saved.state["learner"])
            self.baselines.load_state_dict(tensors_below(saved, "yardsticks."))
            self.window.count, self.window.sums = saved.state["window"]["count"], saved.state["window"]["sums"]
            self.position = Position(*saved.state["position"])
        self.frames_done = saved.step
        # A kill between the checkpoint and the model's own file left that one of the checkpoint before.
        save_weights(self.model, self.run.new_artifact(WEIGHTS))
        return True

    def train(self, on_frame: Callable[[int], None], saving: Saving | None = None) -> Outcome:
        """Learn until `frames` in all are seen; an interrupt ends it after the frame under way."""
        logger = TensorBoardLogger(self.run.board, COLUMNS, on_rows=self.window.add)
        try:
            with saving or Saving() as saving:
                try:
                    outcome = self._watch(logger, on_frame, saving)
                except ContentError:
                    self._save(logger)  # the source is gone, but not what was learned from it
                    raise
            self._save(logger)
        finally:
            logger.close()
        return outcome

    def _watch(self, logger: TensorBoardLogger, on_frame: Callable[[int], None], saving: Saving) -> Outcome:
        settings = self.settings
        if self.frames_done >= settings.frames:
            return "done"
        with FrameSource(settings.source, self.seed, self.device, self.position) as source:
            while self.frames_done < settings.frames:
                with self.performance.part("source"):
                    frame = source.read()
                if frame is None:
                    return "ended"
                with self.performance.part("update"):
                    result = self.model.learn(frame.pixels, reset=frame.cut)
                self.frames_done += 1
                with self.performance.part("logging"):
                    self._log(logger, result)
                self.position = source.position
                on_frame(self.frames_done)
                if self.frames_done < settings.frames:  # the end is saved where it is known
                    due = self.frames_done % settings.save_every == 0
                    saving.reached(f"frame {spaced(self.frames_done)}", lambda: self._save(logger), due=due)
        return "done"

    def _log(self, logger: TensorBoardLogger, result: LearnResult) -> None:
        step = self.frames_done
        row = self._measure(result)
        spent = {f"time/{part}_ms": 1000 * seconds for part, seconds in self.performance.last_s.items()}
        logger.add(step, row, spent | {"time/fps": self.performance.fps})
        if step % self.settings.picture_every == 0 or step == 1:
            logger.pictures(step, result)
            logger.histograms(step, self.model, result)
        if self.viewer:
            self.viewer.offer(step, result, self.window.latest)

    def _score(self, result: LearnResult) -> Tensor:
        """COLUMNS of one frame."""
        return torch.cat([figures_of(result), self.baselines(result.frame, result.reconstruction)])

    def _save(self, logger: TensorBoardLogger) -> None:
        """A checkpoint of this moment and the model alone, once all before it is logged and found finite."""
        logger.drain()
        state = self.model.training_state()
        tensors = {f"learner.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
        # What baselines are called in files since the first ones, so that old checkpoints load.
        tensors |= {f"yardsticks.{name}": value for name, value in self.baselines.state_dict().items()}
        plain = {
            "learner": {name: value for name, value in state.items() if not isinstance(value, Tensor)},
            "window": {"count": self.window.count, "sums": self.window.sums},
            "position": list(self.position),
        }
        arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
        self.run.checkpoint(self.frames_done, arrays, plain)
        save_weights(self.model, self.run.new_artifact(WEIGHTS))


class Window(MeanWindow):
    """Means of COLUMNS over so many frames."""

    def __init__(self, run: Run, every: int) -> None:
        super().__init__(run, every, COLUMNS, "--set model.optimiser.lr")

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        return {**{name: means[name] for name in monitor.FIGURES}, **baselines.summary(means)}


def tensors_below(saved: Checkpoint, prefix: str) -> dict[str, Any]:
    return {name: torch.from_numpy(array) for name, array in saved.below(prefix).items()}
