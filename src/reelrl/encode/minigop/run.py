"""One pass: a source that asks, a controller that decides, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.content.quality import psnr_of_mean_mse
from reelrl.encode.codecs.packet import Packet
from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopFeedback, Situation
from reelrl.errors import EncoderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.encode.minigop.protocols import MiniGopController, MiniGopSource


@dataclass(frozen=True)
class MiniGopRun:
    """Decisions and what they led to, mini-GOP by mini-GOP.

    packets   the stream, where the source has it (an encoder of another process keeps its own)
    sent_qps  QP (random access) or base QP (low delay) sent with each picture, where the source tells
    think_s   CPU seconds that the decisions took; `cpu_s` is the whole pass
    """

    episode: MiniGopEpisode
    deltas: tuple[float, ...]
    feedback: tuple[MiniGopFeedback, ...]
    packets: tuple[Packet, ...] = ()
    sent_qps: tuple[int, ...] = ()
    think_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def bits(self) -> int:
        return sum(report.bits for report in self.feedback)

    @property
    def kbps(self) -> float:
        return self.bits * float(self.episode.fps) / self.episode.frames / 1000

    @property
    def rate_error(self) -> float:
        """Relative: 0.02 is two per cent above the budget."""
        return self.kbps / self.episode.kbps - 1

    @property
    def psnr_y(self) -> float:
        """Mean of the frames' luma PSNR in dB."""
        frames = sum(report.frames for report in self.feedback)
        return sum(report.psnr_y * report.frames for report in self.feedback) / frames

    @property
    def psnr_y_of_mean(self) -> float:
        """Luma PSNR of the mean squared error in dB: frames of bad quality weigh more."""
        frames = sum(report.frames for report in self.feedback)
        mean = sum(report.sse_y for report in self.feedback) / frames
        return psnr_of_mean_mse([mean], self.episode.width * self.episode.height)

    @property
    def ssim_y(self) -> float | None:
        """Mean of the frames' luma SSIM, where it was measured."""
        known = [(report.ssim_y, report.frames) for report in self.feedback if report.ssim_y is not None]
        return sum(ssim * frames for ssim, frames in known) / sum(frames for _, frames in known) if known else None


def run_controller(
    source: MiniGopSource,
    controller: MiniGopController,
    seed: int = 0,
    on_decision: Callable[[Situation, float], None] | None = None,
) -> MiniGopRun:
    """Code the whole clip by the controller's decisions, and close the source. `on_decision` gets each one."""
    started = time.process_time()
    think_s = 0.0
    deltas: list[float] = []
    history: list[MiniGopFeedback] = []
    try:
        controller.reset(seed, source.episode)
        while (request := source.request()) is not None:
            history += source.feedback()
            situation = Situation(source.episode, request, history)
            before = time.thread_time()
            delta = float(controller.act(situation))
            think_s += time.thread_time() - before
            source.reply(delta)
            deltas.append(delta)
            if on_decision is not None:
                on_decision(situation, delta)
        history += source.feedback()
    finally:
        source.close()
    if len(history) < len(deltas):  # more: an encode that was taken on in the middle tells of what was before
        raise EncoderError(f"{len(deltas)} mini-GOPs were decided, but feedback came for {len(history)}")
    return MiniGopRun(
        episode=source.episode,
        deltas=tuple(deltas),
        feedback=tuple(history),
        packets=tuple(source.packets),
        sent_qps=tuple(source.sent_qps),
        think_s=think_s,
        cpu_s=time.process_time() - started,
    )
