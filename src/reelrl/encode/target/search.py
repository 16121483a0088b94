"""The CRF of one scene: predicted, probed where that is unsure, chosen, and where it still is, checked and revised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, PROBE
from reelrl.encode.target.model import CRFS, SceneBelief

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.encode.target.lessons import CurvePoint


@dataclass(frozen=True)
class SearchRules:
    """When a finished encode is scored and made again, in shares of what counts as near.

    check   a few frames of the encode are scored where the standard deviation at its CRF is above it
    redo    the encode is made again where it is then believed to miss by more
    thrift  a probe must make a miss less likely by so much for each encode that it takes
    probes  of a scene at most
    encodes  of a scene at most
    """

    check: float = 0.4
    redo: float = 0.7
    thrift: float = 0.56
    probes: int = 2
    encodes: int = 3


DEFAULT_RULES = SearchRules()

CHECK_DOUBT = 0.35
"""Standard deviation of a few frames' mean around that of all, in shares of what counts as near."""

_CHECKED_POOLS = ("mean", "harmonic")
_LOST = 3.0  # standard deviation, in the same shares


@dataclass(frozen=True)
class ScenePrediction:
    """A CRF, with the figure that the scene is expected to have there and its standard deviation."""

    crf: float
    expected: float
    doubt: float


@dataclass(frozen=True)
class SceneDecision:
    """What a scene is coded with, and why.

    predicted   from features and earlier scenes alone
    chosen      after the probes and checks
    probes      (CRF, figure) of each probe
    checks      (CRF, figure) of a finished encode, by a few of its frames; another CRF than the chosen: made again
    capped_by   "", or the limit that stands against the target: "kbps", "lowest CRF" or "highest CRF"
    """

    predicted: ScenePrediction
    chosen: ScenePrediction
    kbps: float
    probes: list[tuple[float, float]] = field(default_factory=list)
    checks: list[tuple[float, float]] = field(default_factory=list)
    capped_by: str = ""


@dataclass(frozen=True)
class SceneSearch:
    """The search for one scene's CRF.

    beliefs     of the target's figure and of `BITS`; they know more afterwards
    probe_cost  CPU of a probe over that of the encode
    pixel_rate  pixels per second: makes bits per pixel a bitrate, which stays below `max_kbps`
    """

    beliefs: Mapping[str, SceneBelief]
    target: QualityTarget
    preset: int
    rules: SearchRules = DEFAULT_RULES
    probe_cost: float = 0.5
    pixel_rate: float = 1.0
    max_kbps: float | None = None

    def decide(self, ask: Callable[[float], CurvePoint]) -> SceneDecision:
        """Predict, and probe where that is worth it: `ask(crf)` makes a probe."""
        predicted = at = self._choice()
        probes: list[tuple[float, float]] = []
        while len(probes) < self.rules.probes and self._worth_a_probe(at):
            crf = float(round(at.crf))
            if any(crf == before for before, _ in probes):
                break
            point = ask(crf)
            for belief in self.beliefs.values():
                belief.observe(PROBE, crf, point.figures[belief.model.figure])
            probes.append((crf, point.figures[self.target.figure]))
            at = self._choice()
        return self._within_limits(SceneDecision(predicted, at, 0.0, probes))

    def worth_a_check(self, decision: SceneDecision) -> bool:
        """Whether to score a few frames of the encode. Of percentiles a few frames say nothing."""
        if decision.capped_by == "kbps" or self.target.pool not in _CHECKED_POOLS:
            return False
        checked = decision.checks[-1][0] if decision.checks else None
        if decision.chosen.crf == checked or len(decision.checks) + 1 >= self.rules.encodes:
            return False
        return decision.chosen.doubt > self.rules.check * self.target.near

    def revise(self, decision: SceneDecision, figure: float) -> SceneDecision:
        """The decision after its encode was checked: another CRF where it is believed to miss by too much."""
        crf = decision.chosen.crf
        self._quality.observe_encode(self.preset, crf, figure, CHECK_DOUBT * self.target.near)
        now = self._at(crf)
        if abs(now.expected - self.target.value) > self.rules.redo * self.target.near:
            now = self._choice()
        return self._within_limits(replace(decision, chosen=now, checks=[*decision.checks, (crf, figure)]))

    @property
    def _quality(self) -> SceneBelief:
        return self.beliefs[self.target.figure]

    def _at(self, crf: float) -> ScenePrediction:
        expected, doubt = self._quality.curve(self.preset)
        place = _place(crf)
        return ScenePrediction(float(CRFS[place]), float(expected[place]), float(doubt[place]))

    def _choice(self) -> ScenePrediction:
        """The highest CRF that is expected to meet the target, or the nearest to it."""
        # Splines may swing up again at high CRF, encoders don't.
        falling = np.minimum.accumulate(self._quality.curve(self.preset)[0])
        return self._at(float(CRFS[int(np.argmin(np.abs(falling - self.target.value)))]))

    def _worth_a_probe(self, at: ScenePrediction) -> bool:
        """Whether a probe is expected to make a miss less likely by enough for what it takes."""
        if at.doubt > _LOST * self.target.near:
            return True  # an encode would be thrown away, and takes more
        left = self._quality.after_probe(round(at.crf), self.preset, _place(at.crf))
        return self._missed(at.doubt) - self._missed(left) > self.rules.thrift * self.probe_cost

    def _missed(self, doubt: float) -> float:
        """How likely a figure with this standard deviation is off by more than what counts as near."""
        return math.erfc(self.target.near / (math.sqrt(2) * max(doubt, 1e-9)))

    def _within_limits(self, decision: SceneDecision) -> SceneDecision:
        """With its bitrate, below the cap."""
        rates = 2 ** self.beliefs[BITS].curve(self.preset)[0] * self.pixel_rate / 1000
        at, capped_by = decision.chosen, _end_of_range(decision.chosen, self.target)
        if self.max_kbps is not None and rates[_place(at.crf)] > self.max_kbps:
            # The lowest CRF that is expected to stay below it, or the highest there is.
            below = np.flatnonzero(rates <= self.max_kbps)
            at, capped_by = self._at(float(CRFS[below[0]] if len(below) else CRFS[-1])), "kbps"
        return replace(decision, chosen=at, kbps=float(rates[_place(at.crf)]), capped_by=capped_by)


def _place(crf: float) -> int:
    return int(np.searchsorted(CRFS, crf))


def _end_of_range(at: ScenePrediction, target: QualityTarget) -> str:
    if at.crf == CRFS[0] and at.expected < target.value - target.near:
        return "lowest CRF"
    if at.crf == CRFS[-1] and at.expected > target.value + target.near:
        return "highest CRF"
    return ""
