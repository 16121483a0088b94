"""Where the time of a step goes, and what it showed, written to TensorBoard off the hot path.

    performance = PerformanceMonitor()
    with performance.part("update"):
        result = model.learn(frame)
    logger = TensorBoardLogger(Board(folder), FIGURES)
    logger.add(step, figures_of(result), {"time/step_ms": 1000 * performance.step_s})

A learner on a GPU runs ahead of its host; asking it for a number would stop it. Figures stay on the device until a
batch of them is copied, and a thread writes them when they have arrived: every frame, at most a second late.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from reelrl.see.monitor.panels import FeatureVisualizer, pictures_of
from reelrl.see.monitor.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from reelrl.runs.folder import NoBoard
    from reelrl.runs.tensorboard import Board
    from reelrl.see.result import LearnResult

FIGURES = ("loss", "psnr", "l1", "ssim", "gradient_norm", "changed_share")
BATCH = 64  # frames whose figures travel together
LATEST_S = 1.0  # how late a figure may be
WAITING = 256  # jobs that may wait for the disk before the learner waits too


class PerformanceMonitor:
    """Seconds by part of a step, of the last step and in all."""

    def __init__(self) -> None:
        self.totals_s: dict[str, float] = {}
        self.last_s: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.last_s[name] = time.perf_counter() - start_s
            self.totals_s[name] = self.totals_s.get(name, 0.0) + self.last_s[name]

    @property
    def step_s(self) -> float:
        """The last step, all parts together."""
        return sum(self.last_s.values())

    @property
    def fps(self) -> float:
        return 1 / max(self.step_s, 1e-9)

    def shares(self) -> dict[str, float]:
        """The part of all time that each part took."""
        whole_s = max(sum(self.totals_s.values()), 1e-9)
        return {name: seconds / whole_s for name, seconds in self.totals_s.items()}


def figures_of(result: LearnResult) -> Tensor:
    """FIGURES of one step, as one vector on its device."""
    psnr = -10 * result.mse.float().clamp(min=1e-10).log10()
    values = (result.loss, psnr, result.l1, result.ssim, result.gradient_norm, result.change_mask.mean())
    return torch.stack([value.detach().float().reshape(()) for value in values])


class TensorBoardLogger:
    """Scalars of every frame, and pictures and histograms when asked, written by a thread.

    `on_rows` gets each batch, too, in the thread: the step of its first row, and the rows. What goes wrong there is
    raised by the next call here.
    """

    def __init__(self, board: Board | NoBoard, names: Sequence[str], *, on_rows: Any = None) -> None:
        self.board = board
        self._names = [f"frame/{name}" for name in names]
        self._on_rows: Callable[[int, NDArray[np.float32]], None] | None = on_rows
        self._visualizer = FeatureVisualizer()
        self._rows: Tensor | None = None
        self._beside: list[Mapping[str, float]] = []
        self._first_step = 0
        self._sent_s = time.monotonic()
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="tensorboard", daemon=True)
        self._thread.start()

    def add(self, step: int, row: Tensor, beside: Mapping[str, float] | None = None) -> None:
        """The figures of one frame, on whatever device; `beside` are numbers that the host knows already."""
        if self._rows is None:
            self._rows = torch.empty(BATCH, len(row), device=row.device)
        if not self._beside:
            self._first_step = step
        self._rows[len(self._beside)].copy_(row)
        self._beside.append(beside or {})
        if len(self._beside) == BATCH or time.monotonic() - self._sent_s > LATEST_S:
            self._send()

    def pictures(self, step: int, result: LearnResult) -> None:
        """Input, reconstruction, error, change and feature maps."""
        snapshot = Snapshot(pictures_of(result))
        self._later(lambda: self.board.image("panels", step, self._visualizer.sheet(snapshot.arrays())))

    def histograms(self, step: int, model: nn.Module, result: LearnResult) -> None:
        """The distributions of all parameters and of the embeddings."""
        tensors: dict[str, Tensor] = {f"parameters/{name}": value for name, value in model.named_parameters()}
        tensors |= {f"embeddings/{index}": value for index, value in enumerate(result.embeddings)}
        snapshot = Snapshot(tensors)
        self._later(lambda: self._write_histograms(step, snapshot))

    def drain(self) -> None:
        """Return when everything is written."""
        self._send()
        self._jobs.join()
        self._raise()

    def close(self) -> None:
        """Write what is left and end the thread; the board stays open. A second call does nothing."""
        if self._thread.is_alive():
            self._send_quietly()
            self._jobs.put(None)
            self._thread.join()

    def _send(self) -> None:
        self._raise()
        self._send_quietly()

    def _send_quietly(self) -> None:
        self._sent_s = time.monotonic()
        if not self._beside or self._rows is None:
            return
        beside, first_step = self._beside, self._first_step
        snapshot = Snapshot({"rows": self._rows[: len(beside)]})
        self._beside = []
        self._later(lambda: self._write_rows(first_step, snapshot.arrays()["rows"], beside))

    def _later(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if self._error is None:
                    job()
            except BaseException as error:  # noqa: BLE001  it is the learner's to hear of
                self._error = error
            finally:
                self._jobs.task_done()

    def _write_rows(self, first_step: int, rows: NDArray[np.float32], beside: list[Mapping[str, float]]) -> None:
        for step, (row, more) in enumerate(zip(rows.tolist(), beside, strict=True), first_step):
            self.board.scalars(step, dict(zip(self._names, row, strict=True)) | dict(more))
        self.board.flush()
        if self._on_rows:
            self._on_rows(first_step, rows)

    def _write_histograms(self, step: int, snapshot: Snapshot) -> None:
        for name, values in snapshot.arrays().items():
            self.board.histogram(name, step, values)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
