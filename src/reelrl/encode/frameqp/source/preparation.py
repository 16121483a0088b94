"""A clip made ready for passes: first-pass statistics, probes near a budget, and a source for each pass."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.codecs.aom import api as aom_api
from reelrl.encode.codecs.aom.first_pass import TWO_PASS, check_two_pass, two_pass_statistics
from reelrl.encode.frameqp.protocols import FrameQpEpisode
from reelrl.encode.frameqp.source.in_process import FrameQpSource
from reelrl.encode.frameqp.source.plan import FramePlan, plan_at
from reelrl.encode.frameqp.source.probe import FrameProbe, frame_probe
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

MOST_PROBES = 5
NEAR_OCTAVES, NEAR_QPS = 0.06, 10
"""A probe this near to the budget is near enough, and so are two this near to each other with the budget between."""

CURVE_STEP = 6
"""QPs between two probes that show what bits buy."""

_OCTAVES_PER_QP = 0.075  # what a step of constant quality usually takes
_FIRST_QP = 38
_FARTHEST = 14  # QPs from one probe to the next, where all are on one side of the budget


class FramePreparation:
    """A clip made ready for passes; probes are made once, and cached on disk.

    keep_delta_q  libaom's own offsets inside frames stay: see `TwoPassSession`
    """

    def __init__(self, clip: Clip, settings: EncoderSettings = TWO_PASS, *, keep_delta_q: bool = True) -> None:
        self.clip, self.settings, self.keep_delta_q = clip, settings.for_clip(clip), keep_delta_q
        check_two_pass(self.settings, steered=True)
        self.statistics = two_pass_statistics(clip, self.settings)
        self._probes: dict[int, FrameProbe] = {}

    def probe(self, qp: int) -> FrameProbe:
        """Constant quality at a QP."""
        if qp not in self._probes:
            self._probes[qp] = frame_probe(self.clip, replace(self.settings, qp=qp), inner_delta_q=self.keep_delta_q)
        return self._probes[qp]

    def kbps_at(self, qp: int) -> float:
        """What constant quality spends at a QP."""
        return self.probe(qp).bits / self.clip.duration_s / 1000

    def probes_near(self, kbps: float) -> dict[int, FrameProbe]:
        """Probes that end near the budget, or on both sides of it; each begins where the last ones point to."""
        budget = kbps * 1000 * self.clip.duration_s
        made: dict[int, FrameProbe] = {}
        qp = _FIRST_QP
        while len(made) < MOST_PROBES and qp not in made:
            made[qp] = self.probe(qp)
            if abs(math.log2(made[qp].bits / budget)) < NEAR_OCTAVES:
                break
            qp = _next_qp(made, budget)
        return made

    def curve_probes(self, kbps: float) -> list[FrameProbe]:
        """Two probes or more: what bits buy near the budget."""
        made = self.probes_near(kbps)
        if len(made) < 2:
            (qp,) = made
            other = qp + CURVE_STEP if qp + CURVE_STEP <= 63 else qp - CURVE_STEP
            made[other] = self.probe(other)
        return list(made.values())

    def source(self, *, kbps: float, plan: FramePlan | None = None) -> FrameQpSource:
        """A source for one pass at a budget."""
        if not 0 < kbps < math.inf:
            raise ConfigError(f"kbps = {kbps}; a budget is above zero")
        clip, probes = self.clip, self.probes_near(kbps)
        budget = kbps * 1000 * clip.duration_s
        plan = plan or plan_at(budget, probes)
        episode = FrameQpEpisode(
            clip=clip.name,
            width=clip.width,
            height=clip.height,
            frames=clip.frame_count,
            fps=clip.fps,
            kbps=kbps,
            budget_bits=budget,
            plan=plan.frames,
            passes=len(probes),
            octaves_per_step=plan.octaves_per_step,
            first_pass=np.frombuffer(self.statistics).reshape(-1, aom_api.STATISTICS_RECORD // 8)[:-1],
        )
        probe_cpu_s = sum(probe.cpu_s for probe in probes.values())
        settings = replace(self.settings, qp=plan.qp)
        return FrameQpSource(
            clip, settings, self.statistics, episode, keep_delta_q=self.keep_delta_q, probe_cpu_s=probe_cpu_s
        )


def _next_qp(made: dict[int, FrameProbe], budget: float) -> int:
    """Where the probes made so far meet the budget; a QP that was probed where they are near enough on both sides."""
    octaves = {qp: math.log2(probe.bits / budget) for qp, probe in made.items()}
    finer = max((qp for qp in octaves if octaves[qp] > 0), default=None)
    coarser = min((qp for qp in octaves if octaves[qp] <= 0), default=None)
    if finer is not None and coarser is not None:
        if coarser - finer <= NEAR_QPS:
            return finer
        share = octaves[finer] / (octaves[finer] - octaves[coarser])
        return min(max(round(finer + share * (coarser - finer)), finer + 1), coarser - 1)
    nearest = min(octaves) if finer is None else finer
    steps = octaves[nearest] / _OCTAVES_PER_QP
    return min(max(round(nearest + min(max(steps, -_FARTHEST), _FARTHEST)), 1), 63)
