"""A clip made ready for passes: how its pictures look, where to probe it, and a source for each pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.minigop.protocols import CRF_STEPS_PER_QP, OCTAVES_PER_QP, Goal, MiniGopEpisode, PlannedMiniGop
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS, InProcessSource, clipped, least_lag
from reelrl.encode.minigop.source.plan import ClipPlan, features_of, layers_of, probed_plan, spans_of
from reelrl.encode.minigop.source.probe import probe
from reelrl.encode.minigop.source.starting_qp import FirstSample, SampleEncode, near, sample_encode
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.settings import EncoderSettings

HEADROOM = 12
"""QP steps by which a session that replays picture QPs is opened above its probe's.

The session's own QP then sets no picture's, and yet the bits change: fewer at the same PSNR on most clips tried, more
on some. Why is a guess (it may set what the encoder dares to skip); `--headroom 0` leaves it out:
docs/results/minigop.md."""

_FAR_OCTAVES = 0.5  # a probe that is further from the budget is made again, nearer
_LEAST_OCTAVES, _MOST_OCTAVES = 0.04, 0.35  # of a QP step


@dataclass(frozen=True)
class _Start:
    """Where a pass begins; `dropped_cpu_s` is what a probe took that was made and not used."""

    plan: ClipPlan
    passes: int
    octaves_per_qp: float
    dropped_cpu_s: float = 0.0


class Preparation:
    """A clip made ready for passes: its analysis, and the plan of each starting QP, are made once."""

    def __init__(self, clip: Clip, settings: EncoderSettings = RANDOM_ACCESS) -> None:
        self.clip, self.settings = clip, _checked(settings).for_clip(clip)
        self._plans: dict[int, ClipPlan] = {}
        self._sample: SampleEncode | FirstSample | None = None
        self._spans = spans_of(clip.frame_count, self.settings)
        self._features = features_of(self._spans, clip)

    def plan(self, start_qp: int) -> ClipPlan:
        if start_qp not in self._plans:
            make = self._unprobed if self.settings.low_delay else self._probed
            self._plans[start_qp] = make(start_qp)
        return self._plans[start_qp]

    def kbps_at(self, qp: int) -> float:
        """What the encoder alone spends at a QP."""
        return probe(self.clip, replace(self.settings, qp=qp)).total_bits / self.clip.duration_s / 1000

    def source(
        self,
        *,
        kbps: float | None = None,
        goal: Goal | None = None,
        buffer_s: float = 1.0,
        feedback_lag: int | None = None,
        start_qp: int | None = None,
        headroom: int = HEADROOM,
    ) -> InProcessSource:
        """A source for one pass.

        kbps          the budget; None takes what the probe spent (random access only)
        goal          "vbr" spends the budget over the clip, "cbr" holds it within `buffer_s`; None: by structure
        feedback_lag  mini-GOPs decided before the cost of one is known; None takes the least that the encoder allows
        start_qp      QP of the probe, or of low delay's first mini-GOP; None guesses from `kbps` and the pictures
        headroom      as `HEADROOM`, in random access
        """
        clip, settings = self.clip, self.settings
        if kbps is None and settings.low_delay:
            raise ConfigError("low delay needs kbps: there is no probe whose rate could be the budget")
        if kbps is not None and not 0 < kbps < math.inf:
            raise ConfigError(f"kbps = {kbps}; a budget is above zero")
        goal = goal or ("cbr" if settings.low_delay else "vbr")
        start = self._start(kbps, start_qp, buffer_s if goal == "cbr" else math.inf)
        plan = start.plan
        if kbps is None:
            kbps = plan.bits / clip.duration_s / 1000
        sample_cpu_s = 0.0 if self._sample is None else self._sample.cpu_s
        return planned_source(
            clip,
            settings,
            plan,
            kbps=kbps,
            goal=goal,
            buffer_s=buffer_s,
            feedback_lag=feedback_lag,
            passes=start.passes,
            octaves_per_qp=start.octaves_per_qp,
            headroom=headroom,
            sample_cpu_s=sample_cpu_s + start.dropped_cpu_s,
        )

    def _start(self, kbps: float | None, start_qp: int | None, buffer_s: float) -> _Start:
        """The plan to begin with: of the QP asked for, else of a guess, which is made again where it was far off."""
        passes = 0 if self.settings.low_delay else 1
        guessed = start_qp is None and kbps is not None
        if start_qp is None:
            start_qp = self.settings.qp if kbps is None else self._guess(kbps, buffer_s)
        plan, octaves_per_qp = self.plan(start_qp), self._octaves_per_qp()
        if not (guessed and passes) or kbps is None or (better := self._better(plan, kbps)) == start_qp:
            return _Start(plan, passes, octaves_per_qp)
        again = self.plan(better)
        nearer = again if abs(self._octaves(again, kbps)) < abs(self._octaves(plan, kbps)) else plan
        # Two probes show what a QP step takes better than the sample encodes do.
        octaves_per_qp = CRF_STEPS_PER_QP * math.log2(plan.bits / again.bits) / (better - start_qp)
        return _Start(nearer, 2, octaves_per_qp, min(plan.probe_cpu_s, again.probe_cpu_s))

    def _probed(self, qp: int) -> ClipPlan:
        """Random access: by a pass of the encoder alone."""
        probed = probe(self.clip, replace(self.settings, qp=qp))
        return probed_plan(self._spans, probed, qp, self._features)

    def _unprobed(self, qp: int) -> ClipPlan:
        """Low delay: all that is known beforehand is how the pictures look."""
        minigops = tuple(
            PlannedMiniGop(span.mg, span.gop, span.first, span.frames, qp, (qp,) * span.frames, features)
            for span, features in zip(self._spans, self._features, strict=True)
        )
        layers = tuple(layers_of(span, self._spans, self.settings.levels) for span in self._spans)
        return ClipPlan(self._spans, layers, minigops, 0.0)

    def _octaves(self, plan: ClipPlan, kbps: float) -> float:
        """How far the probe's rate is above the budget."""
        return math.log2(plan.bits / self.clip.duration_s / 1000 / kbps)

    def _better(self, plan: ClipPlan, kbps: float) -> int:
        """Another QP to probe at, where the probe's rate is so far off that deltas on its QPs would cost quality."""
        octaves, per_crf = self._octaves(plan, kbps), self._octaves_per_qp() / CRF_STEPS_PER_QP
        return plan.qp if abs(octaves) < _FAR_OCTAVES else near(plan.qp + octaves / per_crf)

    def _octaves_per_qp(self) -> float:
        """What a QP step on all layers takes from the clip's bits, by the sample encodes."""
        sampled = self._sample
        return sampled.octaves_per_qp if isinstance(sampled, SampleEncode) else OCTAVES_PER_QP

    def _guess(self, kbps: float, buffer_s: float) -> int:
        if self._sample is None:
            self._sample = sample_encode(self.clip, self.settings)
        return self._sample.qp_for(kbps, buffer_s)


def open_source(clip: Clip, settings: EncoderSettings = RANDOM_ACCESS, **options: Any) -> InProcessSource:
    """A source for one pass over `clip` in the structure that `settings` name; `options` as in `Preparation.source`."""
    return Preparation(clip, settings).source(**options)


def planned_source(
    clip: Clip,
    settings: EncoderSettings,
    plan: ClipPlan,
    *,
    kbps: float,
    goal: Goal = "vbr",
    buffer_s: float = 1.0,
    feedback_lag: int | None = None,
    passes: int = 1,
    octaves_per_qp: float = OCTAVES_PER_QP,
    headroom: int = HEADROOM,
    session_qp: int | None = None,
    sample_cpu_s: float = 0.0,
) -> InProcessSource:
    """A source for one pass over a clip whose plan is made; `passes` and `octaves_per_qp` as in `MiniGopEpisode`.

    In random access the session is opened at `session_qp`, or `headroom` above what the pictures will have.
    """
    episode = MiniGopEpisode(
        clip=clip.name,
        width=clip.width,
        height=clip.height,
        frames=clip.frame_count,
        fps=clip.fps,
        goal=goal,
        kbps=kbps,
        budget_bits=kbps * 1000 * clip.duration_s,
        buffer_s=buffer_s,
        feedback_lag=_lag(settings, feedback_lag),
        passes=passes,
        plan=None if settings.low_delay else plan.minigops,
        octaves_per_qp=possible_slope(octaves_per_qp),
    )
    if settings.low_delay:
        settings = replace(settings, qp=plan.qp)
    else:
        if session_qp is None:
            session_qp = opening_qp(plan, episode.budget_bits, episode.octaves_per_qp, headroom)
        settings = replace(settings, qp=session_qp, crf_quarters=0, picture_qp=True)
    return InProcessSource(clip, settings, episode, plan, sample_cpu_s)


def opening_qp(plan: ClipPlan, budget_bits: float, octaves_per_qp: float, headroom: int = HEADROOM) -> int:
    """QP to open a session at that replays the plan's QPs, moved so that it takes the budget."""
    expected_qp = plan.qp + math.log2(plan.bits / budget_bits) / octaves_per_qp  # of the pictures, on average
    return clipped(round(expected_qp) + headroom)


def possible_slope(octaves_per_qp: float) -> float:
    """What a QP step takes from the bits, as far as that can be."""
    return min(max(octaves_per_qp, _LEAST_OCTAVES), _MOST_OCTAVES)


def _lag(settings: EncoderSettings, wanted: int | None) -> int:
    least = least_lag(settings)
    if wanted is None:
        return least
    if wanted < least:
        raise ConfigError(
            f"feedback_lag = {wanted}: with {settings.structure} and hierarchical_levels = {settings.levels} the "
            f"encoder gives nothing back before {least} more mini-GOPs were decided; use {least} or more"
        )
    return wanted


def _checked(settings: EncoderSettings) -> EncoderSettings:
    if not capabilities(settings.backend).minigops:
        raise ConfigError(f"backend = {settings.backend} has no mini-GOPs that can be steered; use svtav1")
    if settings.steers_rate:
        raise ConfigError(
            f"rate_control = {settings.rate_control}: the encoder would ignore our QPs; use crf (random access) or cqp "
            "(low delay), the budget is held from here"
        )
    if settings.levels < 2:
        raise ConfigError(f"hierarchical_levels = {settings.levels} makes no mini-GOPs; use 2 to 5")
    # Without recon the encoder measures errors of leaf pictures before it has filtered them.
    return replace(
        settings, picture_qp=False, psnr=True, recon=True, rate_control="cqp" if settings.low_delay else "crf"
    )
