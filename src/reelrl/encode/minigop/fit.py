"""Fit the imitation of the direct search: search clips at a few rates, then take the linear rule nearest to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reelrl.encode.minigop.controllers.imitation import Example, Imitation, fit, misfit
from reelrl.encode.minigop.evaluate import MiniGopContestant, MiniGopEvaluationPlan, beginning, encode_all
from reelrl.encode.minigop.source.preparation import Preparation
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.content.clip import Clip

ORACLE = MiniGopContestant("direct-search", "direct-search")


@dataclass(frozen=True)
class Searched:
    """What the search found for one clip at one rate."""

    clip: str
    source: str
    kbps: int
    example: Example


def search(clips: Sequence[Clip], plan: MiniGopEvaluationPlan, jobs: int = 1) -> list[Searched]:
    """Every clip at every rate; searches are cached on disk, as all encodes of an evaluation are."""
    if plan.goal != "vbr":
        raise ConfigError(f"goal {plan.goal}: the rule plans from a probe, which random access alone has; use vbr")
    points = [point for point in encode_all([ORACLE], clips, plan, jobs) if point.contestant == ORACLE.name]
    searches = []
    for clip in clips:
        prepared = Preparation(beginning(clip, plan).load(), replace(plan.settings, ssim=True))
        for point in points:
            if point.clip == clip.name:
                source = prepared.source(kbps=point.target_kbps, goal=plan.goal, buffer_s=plan.buffer_s)
                source.close()
                searches.append(Searched(clip.name, clip.source, point.target_kbps, (source.episode, point.deltas)))
    return searches


def fitted(
    searches: Sequence[Searched], ridge: float, facts: Mapping[str, Any], without: str | None = None
) -> Imitation:
    """The rule of all that was searched, or of all sources but one."""
    taken = [each for each in searches if each.source != without]
    if not taken:
        raise ConfigError(f"nothing is left to fit without {without}; give clips of two sources or more")
    rule = fit([each.example for each in taken], ridge)
    fit_facts = {"without": without, "clips": sorted({each.clip for each in taken}), "ridge": ridge}
    return Imitation(rule.weights.tolist(), fit_facts | dict(facts))


def leave_one_out(
    searches: Sequence[Searched], ridge: float, facts: Mapping[str, Any]
) -> tuple[dict[str, Imitation], float]:
    """A rule per source that has not seen it, and how much of the unseen offsets' variance they explain, at most 1."""
    rules = {
        source: fitted(searches, ridge, facts, source) for source in dict.fromkeys(each.source for each in searches)
    }
    left = everything = 0.0
    for source, rule in rules.items():
        missed, whole = misfit(rule, [each.example for each in searches if each.source == source])
        left, everything = left + missed, everything + whole
    return rules, 1 - left / everything if everything else 0.0
