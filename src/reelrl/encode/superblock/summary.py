"""Superblock maps against their anchors: BD-rates clip by clip, and the files that hold them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reelrl.report.bd_rate import Method, Point, bd_rate
from reelrl.report.verdicts import ClipResult, Verdict, aligned, shown, write_csv
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.superblock.evaluate import EncodePoint, MapContestant


def clip_results(
    contestants: Sequence[MapContestant],
    points: Sequence[EncodePoint],
    metrics: Sequence[str],
    method: Method = "pchip",
) -> list[ClipResult]:
    """BD-rates of all who have an anchor, clip by clip, in the order of the contestants."""
    curves: dict[tuple[str, str], list[EncodePoint]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.clip), []).append(point)
    results = []
    for contestant in contestants:
        anchor = contestant.anchor
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


def write_records(
    folder: Path,
    points: Sequence[EncodePoint],
    results: Sequence[ClipResult],
    summary: Sequence[Verdict],
    facts: dict[str, Any],
) -> None:
    """points.csv and clips.csv with a row per encode and per BD-rate, summary.json with verdicts and how they came."""
    write_csv(own_path(folder / "points.csv"), [point.row() for point in points])
    write_csv(own_path(folder / "clips.csv"), [result.row() for result in results])
    record = {"facts": facts, "verdicts": [each.record() for each in summary]}
    write_atomic(own_path(folder / "summary.json"), json.dumps(record, indent=2) + "\n")


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
