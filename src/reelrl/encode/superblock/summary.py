"""Superblock maps against their anchors: BD-rates clip by clip, and their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.report.bd_rate import BdRate, Point, bd_rate
from reelrl.report.verdicts import ClipResult, Verdict, aligned, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.superblock.contestants import MapContestant
    from reelrl.encode.superblock.evaluate import EncodePoint
    from reelrl.report.interpolation import Method


def clip_results(
    contestants: Sequence[MapContestant],
    points: Sequence[EncodePoint],
    metrics: Sequence[str],
    method: Method = "pchip",
    against: Sequence[str] = (),
) -> list[ClipResult]:
    """BD-rates of all who have an anchor, clip by clip, in the order of the contestants.

    With `against`, of all against each of those. A clip's figure is the mean of its windows'.
    """
    curves: dict[tuple[str, str], dict[int, list[EncodePoint]]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.clip), {}).setdefault(point.window, []).append(point)
    results = []
    for contestant in contestants:
        for anchor in against or [contestant.anchor]:
            for (name, clip), ours in curves.items():
                if name != contestant.name or name == anchor:
                    continue
                # Paired: clips differ from each other far more than a map changes any of them.
                theirs = curves[anchor, clip]
                one = next(iter(ours.values()))[0]
                for metric in metrics:
                    bd = _mean([bd_rate(_curve(theirs[w], metric), _curve(ours[w], metric), method) for w in ours])
                    results.append(ClipResult(name, anchor, metric, clip, one.source, one.split, one.pristine, bd))
    return results


def _mean(bds: Sequence[BdRate]) -> BdRate:
    """Over the windows of a clip that give a figure; the doubts of all are listed."""
    if len(bds) == 1:
        return bds[0]
    figures = [bd.percent for bd in bds if bd.percent is not None]
    doubts = [f"window {number + 1}: {doubt}" for number, bd in enumerate(bds) for doubt in bd.doubts]
    overlap = sum(bd.overlap for bd in bds) / len(bds)
    return BdRate(sum(figures) / len(figures) if figures else None, overlap, tuple(doubts))


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
