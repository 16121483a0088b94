"""The autoencoder as a script of a few lines knows it: one call makes it, one call per frame does everything.

    model = create_streaming_ae(log_dir="runs/mine")
    results = model.update_params(frame)          # loss, parts, reconstruction, embeddings, change_mask, fps, step_time

`reel train autoencoder` is the way to runs that can be resumed; this one waits for the device at every frame.
"""

from __future__ import annotations

import logging
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.errors import ConfigError
from reelrl.see.frames.source import preprocess_frame
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.monitor.performance import FIGURES, PerformanceMonitor, TensorBoardLogger, figures_of
from reelrl.see.settings import AutoEncoderSettings, OptimiserName, OptimiserSettings
from reelrl.see.weights import load_weights

if TYPE_CHECKING:
    import torch

PRETRAINED = "quick_demo_model.pth"
PICTURE_EVERY = 20

_log = logging.getLogger(__name__)


class WatchedAutoEncoder(StreamingAutoEncoder):
    """A `StreamingAutoEncoder` that takes pictures as they come and keeps its own diary in TensorBoard."""

    def __init__(
        self,
        settings: AutoEncoderSettings,
        device: str | torch.device = "cpu",
        *,
        log_dir: str | Path | None = None,
        pictures: bool = True,
    ) -> None:
        super().__init__(settings, device)
        self.performance = PerformanceMonitor()
        self._pictures = pictures
        self._logger = _logger(Path(log_dir)) if log_dir is not None else None
        if self._logger:
            # Also when the program ends without a word.
            weakref.finalize(self, _end, self._logger)

    def update_params(self, frame: Any, debug: bool = True) -> dict[str, Any]:
        """One update from a picture [H, W, 3] or [3, H, W]: its figures as numbers, what it saw as tensors.

        `debug` adds the reconstruction, and pictures and histograms to TensorBoard now and then.
        """
        with self.performance.part("update"):
            result = self.learn(preprocess_frame(frame, device=self.device))
            row = figures_of(result)
            figures: dict[str, Any] = dict(zip(FIGURES, row.tolist(), strict=True)) | {"mse": float(result.mse)}
        step, seconds = self.frames_seen, self.performance.step_s
        if self._logger:
            self._logger.add(step, row, {"time/fps": 1 / seconds, "time/step_ms": 1000 * seconds})
            if debug and self._pictures and step % PICTURE_EVERY == 1:
                self._logger.pictures(step, result)
                self._logger.histograms(step, self, result)
        figures |= {"fps": 1 / seconds, "step_time": seconds, "frames": step}
        figures |= {"change_mask": result.change_mask, "embeddings": result.embeddings}
        return figures | ({"reconstruction": result.reconstruction} if debug else {})

    def close(self) -> None:
        """Write what TensorBoard has not got yet; a program's end does the same."""
        if self._logger:
            _end(self._logger)
            self._logger = None


def create_streaming_ae(
    input_channels: int = 3,
    latent_channels: int = 3,
    lr: float | None = None,
    debug_vis: bool = True,
    use_tensorboard: bool = True,
    log_dir: str | Path | None = None,
    *,
    optimizer: OptimiserName = "obgd",
    device: str | torch.device = "cpu",
) -> WatchedAutoEncoder:
    """A model to be driven by `update_params`; classic ObGD unless `optimizer` names another.

    It writes to `log_dir`, by default runs/live_viewer_<time>, and begins with the weights in quick_demo_model.pth
    where the working folder has one; a warning in the log says so.
    """
    if input_channels != 3:
        raise ConfigError(f"input_channels is {input_channels}; frames are RGB, so it is 3")
    settings = AutoEncoderSettings(latent_channels=latent_channels, optimiser=OptimiserSettings(name=optimizer, lr=lr))
    folder = log_dir or Path("runs") / f"live_viewer_{time.strftime('%Y%m%d-%H%M%S')}"
    model = WatchedAutoEncoder(settings, device, log_dir=folder if use_tensorboard else None, pictures=debug_vis)
    if Path(PRETRAINED).is_file():
        _log.warning("loaded %s: %s", PRETRAINED, load_weights(model, PRETRAINED))
    return model


def _logger(folder: Path) -> TensorBoardLogger:
    from reelrl.runs.tensorboard import Board

    return TensorBoardLogger(Board(folder), FIGURES)


def _end(logger: TensorBoardLogger) -> None:
    logger.close()
    logger.board.close()
