"""The CRF of one scene: predicted, probed where the prediction is unsure, and then chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.target.lessons import BITS, PROBE
from reelrl.encode.target.model import CRFS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reelrl.encode.target.goal import QualityTarget
    from reelrl.encode.target.lessons import CurvePoint
    from reelrl.encode.target.model import SceneBelief


@dataclass(frozen=True)
class SearchRules:
    """When a probe is made.

    sure    no probe where the standard deviation at the chosen CRF is below so much of what counts as near
    worth   a further probe must be expected to leave at most so much of the standard deviation
    probes  of a scene at most
    """

    sure: float = 0.5
    worth: float = 0.85
    probes: int = 2


DEFAULT_RULES = SearchRules()


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
    chosen      after the probes
    probes      (CRF, figure) of each probe
    capped_by   "", or the limit that stands against the target: "kbps", "lowest CRF" or "highest CRF"
    """

    predicted: ScenePrediction
    chosen: ScenePrediction
    kbps: float
    probes: list[tuple[float, float]] = field(default_factory=list)
    capped_by: str = ""


def search(
    beliefs: Mapping[str, SceneBelief],
    target: QualityTarget,
    preset: int,
    ask: Callable[[float], CurvePoint],
    rules: SearchRules = DEFAULT_RULES,
    *,
    pixel_rate: float = 1.0,
    max_kbps: float | None = None,
) -> SceneDecision:
    """Find the CRF of a scene.

    `beliefs` are those of the target's figure and of `BITS`; they know more afterwards. `ask(crf)` makes a probe.
    `pixel_rate`, pixels per second, makes bits per pixel a bitrate.
    """
    quality = beliefs[target.figure]
    predicted = at = _choice(quality, target, preset)
    probes: list[tuple[float, float]] = []
    while len(probes) < rules.probes and _worth_a_probe(quality, at, target, preset, rules, bool(probes)):
        crf = float(round(at.crf))
        if any(crf == before for before, _ in probes):
            break
        point = ask(crf)
        for belief in beliefs.values():
            belief.observe(PROBE, crf, point.figures[belief.model.figure])
        probes.append((crf, point.figures[target.figure]))
        at = _choice(quality, target, preset)
    rates = 2 ** beliefs[BITS].curve(preset)[0] * pixel_rate / 1000
    capped_by = _end_of_range(at, target)
    if max_kbps is not None and _rate(rates, at.crf) > max_kbps:
        at, capped_by = _under(quality, rates, max_kbps, preset), "kbps"
    return SceneDecision(predicted, at, _rate(rates, at.crf), probes, capped_by)


def _choice(belief: SceneBelief, target: QualityTarget, preset: int) -> ScenePrediction:
    """The highest CRF that is expected to meet the target, or the nearest to it."""
    expected, doubt = belief.curve(preset)
    # Splines may swing up again at high CRF, encoders don't.
    falling = np.minimum.accumulate(expected)
    at = int(np.argmin(np.abs(falling - target.value)))
    return ScenePrediction(float(CRFS[at]), float(expected[at]), float(doubt[at]))


def _worth_a_probe(
    belief: SceneBelief, at: ScenePrediction, target: QualityTarget, preset: int, rules: SearchRules, again: bool
) -> bool:
    if at.doubt <= rules.sure * target.near:
        return False
    left = belief.after_probe(round(at.crf), preset, int(np.searchsorted(CRFS, at.crf)))
    return not again or left <= rules.worth * at.doubt


def _end_of_range(at: ScenePrediction, target: QualityTarget) -> str:
    if at.crf == CRFS[0] and at.expected < target.value - target.near:
        return "lowest CRF"
    if at.crf == CRFS[-1] and at.expected > target.value + target.near:
        return "highest CRF"
    return ""


def _rate(rates: np.ndarray, crf: float) -> float:
    return float(rates[int(np.searchsorted(CRFS, crf))])


def _under(belief: SceneBelief, rates: np.ndarray, max_kbps: float, preset: int) -> ScenePrediction:
    """The lowest CRF that is expected to stay below a bitrate, or the highest there is."""
    below = np.flatnonzero(rates <= max_kbps)
    at = int(below[0]) if len(below) else len(CRFS) - 1
    expected, doubt = belief.curve(preset)
    return ScenePrediction(float(CRFS[at]), float(expected[at]), float(doubt[at]))
