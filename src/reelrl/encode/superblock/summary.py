"""Superblock maps against their anchors: BD-rates clip by clip, and their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.report.bd_rate import Point, bd_rate
from reelrl.report.verdicts import ClipResult, Verdict, aligned, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.superblock.evaluate import EncodePoint, MapContestant
    from reelrl.report.interpolation import Method


def clip_results(
    contestants: Sequence[MapContestant],
    points: Sequence[EncodePoint],
    metrics: Sequence[str],
    method: Method = "pchip",
    against: str | None = None,
) -> list[ClipResult]:
    """BD-rates of all who have an anchor, clip by clip, in the order of the contestants; or of all `against` one."""
    curves: dict[tuple[str, str], list[EncodePoint]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.clip), []).append(point)
    results = []
    for contestant in contestants:
        anchor = against or contestant.anchor
        for (name, clip), ours in curves.items():
            if name != contestant.name or name == anchor:
                continue
            # Paired: clips differ from each other far more than a map changes any of them.
            theirs = curves[anchor, clip]
            one = ours[0]
            for metric in metrics:
                bd = bd_rate(_curve(theirs, metric), _curve(ours, metric), method)
                results.append(ClipResult(name, anchor, metric, clip, one.source, one.split, one.pristine, bd))
    return results


def table(summary: Sequence[Verdict], metrics: Sequence[str]) -> str:
    """Mean BD-rates with intervals as aligned text: contestants down, metrics across."""
    by_name: dict[tuple[str, str], dict[str, Verdict]] = {}
    for each in summary:
        by_name.setdefault((each.contestant, each.anchor), {})[each.metric] = each
    rows = [["contestant", "against", *metrics]]
    rows += [[*names, *(shown(verdicts.get(metric)) for metric in metrics)] for names, verdicts in by_name.items()]
    return aligned(rows)


def _curve(points: Sequence[EncodePoint], metric: str) -> list[Point]:
    return [Point(point.measured.kbps, point.measured.quality[metric]) for point in points]
