"""The CRF of one scene: predicted, probed where that is unsure, chosen, and where it still is, checked and revised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.lessons import BITS, PROBE
from reelrl.encode.target.levels import UNLIKE, Levels, mean_crf, mean_figure
from reelrl.encode.target.model import CRFS, SceneBelief, evened, to_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.encode.target.lessons import CurvePoint
    from reelrl.encode.target.levels import Stretch
    from reelrl.encode.target.model import Vector


@dataclass(frozen=True)
class SearchRules:
    """When a finished encode is scored and made again, in shares of what counts as near.

    check   a few frames of the encode are scored where the standard deviation at its CRF is above it
    redo    the encode is made again where it is then believed to miss by more
    redo_steered  the same of one that was steered: more of its frames are known
    thrift  a probe must make a miss less likely by so much for each encode that it takes
    probes  of a scene at most
    encodes  of a scene at most
    """

    check: float = 0.4
    redo: float = 0.7
    redo_steered: float = 1.0
    thrift: float = 0.56
    probes: int = 2
    encodes: int = 3


DEFAULT_RULES = SearchRules()

CHECK_DOUBT = 0.35
"""Standard deviation of a few frames' mean around that of all, in shares of what counts as near."""

STRETCH_DOUBT = 1.0
"""The same of a short stretch of a scene around the whole scene."""

ROOM = 8.0
"""CRF steps that the rest of an encode is moved by at the most, either way."""

_CHECKED_POOLS = ("mean", "harmonic")
_LOST = 3.0  # standard deviation, in the same shares
_LEAST_SLOPE = 0.3  # of a curve over even steps of CRF, in its scale, from where it bends
_MADE_UP = 2.5  # of a scene, by the part of it that is still to come


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
    restart_cost  CPU of an encode that is given up over that of a whole one; None where encodes are not steered
    """

    beliefs: Mapping[str, SceneBelief]
    target: QualityTarget
    preset: int
    rules: SearchRules = DEFAULT_RULES
    probe_cost: float = 0.5
    pixel_rate: float = 1.0
    max_kbps: float | None = None
    restart_cost: float | None = None

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
        """Whether to score a few frames of the encode."""
        if decision.capped_by == "kbps" or not self.can_be_checked:
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
    def can_be_checked(self) -> bool:
        """Of percentiles a few frames say nothing."""
        return self.target.pool in _CHECKED_POOLS

    def rest_at(
        self,
        stretches: Sequence[Stretch],
        under_way: Sequence[float],
        frames: int,
        start: float,
        *,
        last: bool,
        before: Sequence[Stretch] = (),
    ) -> float | None:
        """The CRF for the rest of an encode; None where another encode is better, and it is not the `last`.

        `before` are the stretches of the one before it.
        """
        levels = self._levels(stretches, frames, before)
        least = max(start - ROOM, self._least_crf)
        crf, mean = levels.rest_at(self.target.value, under_way, least, max(start + ROOM, least))
        # What is to come may be unlike what is known.
        unsure = UNLIKE * (1 - sum(stretch.frames for stretch in stretches) / frames)
        lost = abs(mean - self.target.value) > (self.rules.redo_steered + unsure) * self.target.near
        if last or not lost or abs(levels.whole_at(self.target.value) - start) < ROOM / 2:
            return crf
        return None

    def start_again(self, stretches: Sequence[Stretch], frames: int, before: Sequence[Stretch] = ()) -> float:
        """The CRF of another encode, when what this one taught is learned: between two encodes, where they say."""
        self.learn(stretches, frames)
        crf = self._levels(stretches, frames, before).whole_at(self.target.value)
        return max(self._within_reach(crf, stretches), self._least_crf)

    def _within_reach(self, crf: float, stretches: Sequence[Stretch]) -> float:
        """Not further from where an encode missed than the miss is worth: beyond a flat part, curves fall."""
        figure, even = self.target.figure, np.array([evened(each) for each in CRFS])
        missed = abs(float(to_scale(figure, mean_figure(stretches)) - to_scale(figure, self.target.value)))
        reached = np.abs(even - evened(self._crf_like(stretches))) <= 1 + missed / _LEAST_SLOPE
        return float(np.clip(crf, CRFS[reached][0], CRFS[reached][-1]))

    def is_met(self, stretches: Sequence[Stretch], frames: int) -> bool:
        """Whether an encode is near enough, or as near as one can be."""
        again = max(self._levels(stretches, frames).whole_at(self.target.value), self._least_crf)
        return self._is_near(mean_figure(stretches)) or abs(again - mean_crf(stretches)) < 0.5

    def learn(self, stretches: Sequence[Stretch], frames: int) -> None:
        """Take over what was scored of an encode."""
        left_out = 1 - sum(stretch.frames for stretch in stretches) / frames
        doubt = math.hypot(CHECK_DOUBT, STRETCH_DOUBT * math.sqrt(left_out)) * self.target.near
        self._quality.observe_encode(self.preset, self._crf_like(stretches), mean_figure(stretches), doubt)

    def _crf_like(self, stretches: Sequence[Stretch]) -> float:
        """The one CRF that has what these have together on the expected curve: above their mean, as it bends."""
        falling = self._falling()
        figures = np.interp([each.crf for each in stretches], CRFS, falling)
        mean = np.average(figures, weights=[each.frames for each in stretches])
        return float(CRFS[int(np.argmin(np.abs(falling - mean)))])

    def after_encodes(self, decision: SceneDecision, encodes: Sequence[Sequence[Stretch]]) -> SceneDecision:
        """The decision when all encodes are made, of which the last one stays."""
        checks = [(mean_crf(each), mean_figure(each)) for each in encodes]
        crf, figure = checks[-1]
        chosen = ScenePrediction(crf, figure, CHECK_DOUBT * self.target.near)
        capped_by = _end_of_range(replace(chosen, crf=float(CRFS[_place(round(crf))])), self.target)
        if figure < self.target.value and not self._is_near(figure) and self._wanted_crf(encodes[-1]) < self._least_crf:
            capped_by = "kbps"
        return replace(decision, chosen=chosen, checks=checks, capped_by=capped_by)

    def _wanted_crf(self, stretches: Sequence[Stretch]) -> float:
        """The CRF at which a whole encode would have met its target."""
        return self._levels(stretches, sum(stretch.frames for stretch in stretches)).whole_at(self.target.value)

    @property
    def facts(self) -> list[Any]:
        """All that steered encodes depend on besides the scene and the first CRF, as plain data."""
        falling = [round(float(value), 6) for value in self._falling()]
        return ["steered", str(self.target), self.rules.redo_steered, self.rules.encodes, self._least_crf, falling]

    def _is_near(self, figure: float) -> bool:
        return abs(figure - self.target.value) <= self.rules.redo_steered * self.target.near

    def _levels(self, stretches: Sequence[Stretch], frames: int, before: Sequence[Stretch] = ()) -> Levels:
        doubt = float(self._quality.curve(self.preset)[1][_place(stretches[0].crf)]) / self.target.near
        return Levels(self.target.figure, self._falling(), doubt, stretches, frames, before)

    @property
    def _least_crf(self) -> float:
        """The lowest that is expected to stay below the cap of the bitrate."""
        if self.max_kbps is None:
            return float(CRFS[0])
        below = np.flatnonzero(self._rates() <= self.max_kbps)
        return float(CRFS[below[0]] if len(below) else CRFS[-1])

    def _rates(self) -> Vector:
        """kbit/s at each of `CRFS`, as expected."""
        return 2 ** self.beliefs[BITS].curve(self.preset)[0] * self.pixel_rate / 1000

    def _falling(self) -> Vector:
        """The expected curve. Splines may swing up again at high CRF, encoders don't."""
        return np.minimum.accumulate(self._quality.curve(self.preset)[0])

    @property
    def _quality(self) -> SceneBelief:
        return self.beliefs[self.target.figure]

    def _at(self, crf: float) -> ScenePrediction:
        expected, doubt = self._quality.curve(self.preset)
        place = _place(crf)
        return ScenePrediction(float(CRFS[place]), float(expected[place]), float(doubt[place]))

    def _choice(self) -> ScenePrediction:
        """The highest CRF that is expected to meet the target, or the nearest to it."""
        off = np.abs(self._falling() - self.target.value)
        return self._at(float(CRFS[np.flatnonzero(off == off.min())[-1]]))

    def _worth_a_probe(self, at: ScenePrediction) -> bool:
        """Whether a probe is expected to make a miss less likely by enough for what it takes."""
        left = self._quality.after_probe(round(at.crf), self.preset, _place(at.crf))
        if self.restart_cost is not None:
            saved = self._off_by(_MADE_UP, at.doubt) - self._off_by(_MADE_UP, left)
            return saved * self.restart_cost > self.probe_cost
        if at.doubt > _LOST * self.target.near:
            return True  # an encode would be thrown away, and takes more
        return self._off_by(1, at.doubt) - self._off_by(1, left) > self.rules.thrift * self.probe_cost

    def _off_by(self, shares: float, doubt: float) -> float:
        """How likely a figure with this standard deviation is off by more than so many shares of what is near."""
        return math.erfc(shares * self.target.near / (math.sqrt(2) * max(doubt, 1e-9)))

    def _within_limits(self, decision: SceneDecision) -> SceneDecision:
        """With its bitrate, below the cap."""
        rates, at, capped_by = self._rates(), decision.chosen, _end_of_range(decision.chosen, self.target)
        if self.max_kbps is not None and rates[_place(at.crf)] > self.max_kbps:
            at, capped_by = self._at(self._least_crf), "kbps"
        return replace(decision, chosen=at, kbps=float(rates[_place(at.crf)]), capped_by=capped_by)


def _place(crf: float) -> int:
    return int(np.searchsorted(CRFS, crf))


def _end_of_range(at: ScenePrediction, target: QualityTarget) -> str:
    if at.crf == CRFS[0] and at.expected < target.value - target.near:
        return "lowest CRF"
    if at.crf == CRFS[-1] and at.expected > target.value + target.near:
        return "highest CRF"
    return ""
