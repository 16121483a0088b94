"""Mini-GOP controllers against the encoder's own rate controls: BD-rates, how well rates are met, what to doubt."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.minigop.evaluate import ANCHORS
from reelrl.encode.minigop.evaluation.encoder_modes import MODES
from reelrl.report.bd_rate import Point, bd_rate
from reelrl.report.intervals import Interval, mean_interval
from reelrl.report.verdicts import ClipResult, Verdict, aligned, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.minigop.evaluate import MiniGopContestant, MiniGopEvaluationPlan
    from reelrl.encode.minigop.evaluation.rate_point import RatePoint
    from reelrl.encode.minigop.protocols import Goal
    from reelrl.report.interpolation import Method

FAR_OFF_PERCENT = 5.0
"""A rate further from its target than this is counted."""


@dataclass(frozen=True)
class RateUse:
    """How one contestant spends: errors in percent of the target, over all clips and rates.

    passes     first and probe passes included
    error      mean of absolute errors with its interval over clips; None without a target (crf)
    far_off    share of the encodes that miss by more than `FAR_OFF_PERCENT`
    late       share of the frames that come too late for the buffer; None where the goal has none
    seconds    CPU per encode, all passes; `slower` is the ratio to crf's over the same encodes
    """

    contestant: str
    passes: str
    error: Interval | None
    bias: float | None
    error_p95: float | None
    far_off: float | None
    late: float | None
    seconds: float
    slower: float
    note: str = ""

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"error": self.error._asdict() if self.error else None}


def clip_results(
    points: Sequence[RatePoint], anchors: Sequence[str], metrics: Sequence[str], method: Method = "pchip"
) -> list[ClipResult]:
    """BD-rates of everybody against every anchor but itself, clip by clip."""
    curves: dict[tuple[str, str], list[RatePoint]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.clip), []).append(point)
    results = []
    for (name, clip), own in curves.items():
        for anchor in anchors:
            if name == anchor:
                continue
            for metric in metrics:
                # Over the rates really spent, not those asked for: who misses a target gains nothing by it here.
                change = bd_rate(_curve(curves[anchor, clip], metric), _curve(own, metric), method)
                first = own[0]
                results.append(
                    ClipResult(name, anchor, metric, clip, first.source, first.split, first.pristine, change)
                )
    return results


def rate_uses(contestants: Sequence[MiniGopContestant], points: Sequence[RatePoint], goal: Goal) -> list[RateUse]:
    """One for each contestant, in their order."""
    reference = [point.seconds for point in points if point.contestant == "crf"]
    uses = []
    for contestant in contestants:
        own = [point for point in points if point.contestant == contestant.name]
        seconds = sum(point.seconds for point in own)
        has_target = contestant.spec != "crf"
        errors = np.array([point.error_percent for point in own])
        # Errors of one clip at its rates are alike: the interval is over clips, as that of BD-rates is.
        by_clip = [
            np.mean([abs(point.error_percent) for point in own if point.clip == clip])
            for clip in dict.fromkeys(point.clip for point in own)
        ]
        uses.append(
            RateUse(
                contestant=contestant.name,
                passes=_passes(own),
                error=mean_interval(np.array(by_clip)) if has_target else None,
                bias=float(errors.mean()) if has_target else None,
                error_p95=float(np.quantile(np.abs(errors), 0.95)) if has_target else None,
                far_off=float((np.abs(errors) > FAR_OFF_PERCENT).mean()) if has_target else None,
                late=_late(own) if goal == "cbr" else None,
                seconds=seconds / len(own),
                slower=(seconds / len(own)) / (sum(reference) / len(reference)),
                note=_note(contestant),
            )
        )
    return uses


def warnings(
    contestants: Sequence[MiniGopContestant], uses: Sequence[RateUse], plan: MiniGopEvaluationPlan
) -> list[str]:
    """What a reader must know before comparing rows. Doubts about single curves are in the verdicts."""
    notes = []
    if plan.encoder.threads > 1 and plan.goal == "vbr":
        notes.append(f"vbr with {plan.encoder.threads} threads gives other bytes each time: use one thread")
    if len(set(plan.qps)) < 4:
        notes.append(f"{len(set(plan.qps))} rates: four make a curve to be trusted")
    passes = {use.contestant: use.passes for use in uses}
    for contestant in contestants:
        for anchor in ANCHORS[plan.goal]:
            ours, theirs = passes[contestant.name], passes[anchor]
            if not contestant.is_mode and ours != theirs and anchor != "crf":
                notes.append(f"{contestant.name} makes {ours} passes, {anchor} {theirs}")
        if contestant.privileged:
            notes.append(f"{contestant.name} knows what no encoder could: an oracle, for comparison")
    return notes


def tables(summary: Sequence[Verdict], uses: Sequence[RateUse], anchors: Sequence[str]) -> str:
    """The two tables people look for, as aligned text: BD-rates against each anchor, and how rates are met."""
    return bd_table(summary, uses, anchors, "psnr_y") + "\n\n" + aligned(rate_rows(uses))


def bd_table(summary: Sequence[Verdict], uses: Sequence[RateUse], anchors: Sequence[str], metric: str) -> str:
    """BD-rates against each anchor by one metric."""
    by_name = {(each.contestant, each.anchor): each for each in summary if each.metric == metric}
    rows = [["contestant", "passes", *(f"{metric} % vs {anchor}" for anchor in anchors)]]
    rows += [
        [use.contestant, use.passes, *(_against(by_name, use.contestant, anchor) for anchor in anchors)] for use in uses
    ]
    return aligned(rows)


def rate_rows(uses: Sequence[RateUse]) -> list[list[str]]:
    """Head and rows of the table of rates."""
    rows = [["contestant", "passes", "error %", "95 % of errors below", "beyond 5 %", "late frames", "CPU", "note"]]
    for use in uses:
        error = f"{use.error.mean:.2f} [{use.error.low:.2f}, {use.error.high:.2f}]" if use.error else "-"
        worst = f"{use.error_p95:.2f} %" if use.error_p95 is not None else "-"
        far = f"{use.far_off:.0%}" if use.far_off is not None else "-"
        late = f"{use.late:.1%}" if use.late is not None else "-"
        cpu = f"{use.seconds:.2f} s ({use.slower:.2f}x crf)"
        rows.append([use.contestant, use.passes, error, worst, far, late, cpu, use.note])
    return rows


def as_record(summary: Sequence[Verdict], uses: Sequence[RateUse]) -> dict[str, Any]:
    """All that is concluded, as plain data."""
    return {"verdicts": [each.record() for each in summary], "rates": [use.record() for use in uses]}


def _against(verdicts: dict[tuple[str, str], Verdict], name: str, anchor: str) -> str:
    return "-" if name == anchor else shown(verdicts.get((name, anchor)))


def _passes(points: Sequence[RatePoint]) -> str:
    """How many passes were made: 2, or from 2 to 3 where some clips took another."""
    least, most = min(point.passes for point in points), max(point.passes for point in points)
    return str(least) if least == most else f"{least} to {most}"


def _late(points: Sequence[RatePoint]) -> float:
    return sum(point.late_frames for point in points) / sum(point.frames for point in points)


def _note(contestant: MiniGopContestant) -> str:
    if contestant.is_mode:
        return MODES[contestant.spec].note
    return "oracle" if contestant.privileged else ""


def _curve(points: Sequence[RatePoint], metric: str) -> list[Point]:
    return [Point(point.kbps, point.quality[metric]) for point in points]
