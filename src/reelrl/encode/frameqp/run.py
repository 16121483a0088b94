"""One pass: libaom asks, a controller decides, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.content.quality import mean_of_frame_psnr, psnr_of_mean_mse
from reelrl.encode.codecs.aom.steered_encode import CodedFrame
from reelrl.encode.codecs.packet import Packet
from reelrl.encode.frameqp.protocols import FrameQpEpisode, FrameSituation
from reelrl.encode.frameqp.state import RECENT

if TYPE_CHECKING:
    from reelrl.encode.frameqp.protocols import FrameQpController
    from reelrl.encode.frameqp.source.in_process import FrameQpSource


@dataclass(frozen=True)
class FrameQpRun:
    """Decisions and what they led to, frame by frame. `cpu_s` is the pass, `think_s` the decisions in it."""

    episode: FrameQpEpisode
    deltas: tuple[float, ...]
    qindexes: tuple[int, ...]
    coded: tuple[CodedFrame, ...]
    packets: tuple[Packet, ...]
    think_s: float
    cpu_s: float

    @property
    def bits(self) -> int:
        return 8 * sum(packet.size for packet in self.packets)

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
        return mean_of_frame_psnr(self._errors, self._pixels)

    @property
    def psnr_y_of_mean(self) -> float:
        """Luma PSNR of the mean squared error in dB: frames of bad quality weigh more."""
        return psnr_of_mean_mse(self._errors, self._pixels)

    @property
    def _errors(self) -> list[int]:
        return [packet.luma_sse_in_8_bits for packet in self.packets]

    @property
    def _pixels(self) -> int:
        return self.episode.width * self.episode.height


def run_frame_controller(source: FrameQpSource, controller: FrameQpController, seed: int = 0) -> FrameQpRun:
    """Code the whole clip by the controller's decisions, and close the source."""
    started = time.process_time()
    think_s = 0.0
    try:
        controller.reset(seed, source.episode)
        while (request := source.request()) is not None:
            errors = [packet.luma_sse_in_8_bits for packet in source.packets[-RECENT:]]
            situation = FrameSituation(source.episode, request, source.coded, source.own, source.deltas, errors)
            before = time.thread_time()
            delta = float(controller.act(situation))
            think_s += time.thread_time() - before
            source.reply(delta)
    finally:
        source.close()
    return FrameQpRun(
        source.episode,
        tuple(source.deltas),
        tuple(source.qindexes),
        tuple(source.coded),
        tuple(source.packets),
        think_s,
        time.process_time() - started,
    )
