"""What the rule makes of a clip at a budget: what decisions are measured against, and the account of a pass.

Quality is the mean of two figures: the mean of the frames' PSNR, and the PSNR of the mean error. An agent that starves
a hard scene gains by the first and loses more by the second; one that does the opposite fares no better.

Rewards and costs are differences of two figures of the whole clip, in which frames not yet known stand as the rule
coded them. So they add up to the figures of the finished clip:

    sum of rewards   dB above the rule, after what the bits beyond its own would have bought
    sum of costs     bits beyond the budget over the budget
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reelrl.content.quality import mean_of_frame_psnr, psnr_from_sse, psnr_of_mean_mse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.frameqp.run import FrameQpRun
    from reelrl.encode.frameqp.source.probe import FrameProbe

_LEAST_SLOPE, _USUAL_SLOPE = 1.0, 3.0  # dB for twice the bits


def mixed_psnr(errors: Sequence[float], pixels: int) -> float:
    """Half the mean of the frames' PSNR, half the PSNR of the mean error, in dB."""
    return (mean_of_frame_psnr(errors, pixels) + psnr_of_mean_mse(errors, pixels)) / 2


class RuleReference:
    """One clip by the rule at one budget: its units' bytes and errors, and what bits buy there."""

    def __init__(self, run: FrameQpRun, probes: Sequence[FrameProbe]) -> None:
        episode = run.episode
        self.pixels = episode.width * episode.height
        self.budget_bits = episode.budget_bits
        self.unit_bits = [8 * packet.size for packet in run.packets]
        self.errors = [packet.luma_sse_in_8_bits for packet in run.packets]
        self.bits = sum(self.unit_bits)
        self.quality = mixed_psnr(self.errors, self.pixels)
        self.db_per_octave = self._slope(probes)

    def _slope(self, probes: Sequence[FrameProbe]) -> float:
        """By the two probes furthest apart."""
        made = sorted(probes, key=lambda probe: probe.bits)
        if len(made) < 2 or made[0].bits == made[-1].bits:
            return _USUAL_SLOPE
        gained = mixed_psnr(made[-1].sse.tolist(), self.pixels) - mixed_psnr(made[0].sse.tolist(), self.pixels)
        return max(gained / math.log2(made[-1].bits / made[0].bits), _LEAST_SLOPE)


class FrameAccount:
    """Gain and cost of one pass, temporal unit after temporal unit."""

    def __init__(self, reference: RuleReference) -> None:
        self._reference = reference
        self._error = float(sum(reference.errors))
        self._psnr = sum(psnr_from_sse(error, reference.pixels) for error in reference.errors)
        self.bits = float(reference.bits)
        self._known = 0
        self._gain = self._excess = 0.0

    @property
    def rate_error(self) -> float:
        """Bits of the clip, as far as they are known, over the budget, less one."""
        return self.bits / self._reference.budget_bits - 1

    def add(self, packets: Sequence[Packet]) -> tuple[float, float]:
        """Reward and cost of what has been coded since the last time; `packets` are all so far."""
        reference = self._reference
        for packet in packets[self._known :]:
            ours, rule = packet.luma_sse_in_8_bits, reference.errors[packet.number]
            self._error += ours - rule
            self._psnr += psnr_from_sse(ours, reference.pixels) - psnr_from_sse(rule, reference.pixels)
            self.bits += 8 * packet.size - reference.unit_bits[packet.number]
        self._known = len(packets)
        octaves, frames = math.log2(self.bits / reference.bits), len(reference.errors)
        quality = (self._psnr / frames + psnr_from_sse(self._error, frames * reference.pixels)) / 2
        gain, excess = quality - reference.quality - reference.db_per_octave * octaves, self._overspent()
        reward, cost = gain - self._gain, excess - self._excess
        self._gain, self._excess = gain, excess
        return reward, cost

    def _overspent(self) -> float:
        return max(self.rate_error, 0.0)
