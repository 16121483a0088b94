"""From rate-distortion points to a verdict: BD-rate per clip, and its mean over clips with an interval."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.evaluation.bd_rate import BdRate, Method, Point, bd_rate
from reelrl.evaluation.intervals import Interval, mean_interval
from reelrl.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.evaluation.superblock import Contestant, EncodePoint


@dataclass(frozen=True)
class ClipResult:
    """One contestant on one clip by one metric, against its anchor."""

    contestant: str
    metric: str
    clip: str
    source: str
    split: str
    pristine: bool
    bd: BdRate


@dataclass(frozen=True)
class Verdict:
    """One contestant by one metric over all clips.

    percent   mean BD-rate with its interval over clips; None where no clip gives a figure
    better    clips on which it saves bits, and `worse` those on which it loses; same bytes count as neither
    sign_p    chance of such a split if both were equally good (two-sided sign test)
    left_out  clips without a figure and why, and `doubted` those whose figure has doubts
    """

    contestant: str
    anchor: str
    metric: str
    percent: Interval | None
    median: float | None
    better: int
    worse: int
    sign_p: float
    worst: tuple[str, float] | None
    left_out: dict[str, str]
    doubted: dict[str, str]


def clip_results(
    contestants: Sequence[Contestant], points: Sequence[EncodePoint], metrics: Sequence[str], method: Method = "pchip"
) -> list[ClipResult]:
    """BD-rates of all who have an anchor, clip by clip."""
    curves: dict[tuple[str, str], list[EncodePoint]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.clip), []).append(point)
    results = []
    for contestant in contestants:
        for (name, clip), ours in curves.items():
            if name != contestant.name or name == contestant.anchor:
                continue
            theirs = curves[contestant.anchor, clip]
            one = ours[0]
            for metric in metrics:
                found = bd_rate(_curve(theirs, metric), _curve(ours, metric), method)
                results.append(ClipResult(name, metric, clip, one.source, one.split, one.pristine, found))
    return results


def verdicts(contestants: Sequence[Contestant], results: Sequence[ClipResult]) -> list[Verdict]:
    """One verdict per contestant and metric, in the order of the contestants."""
    anchors = {contestant.name: contestant.anchor for contestant in contestants}
    groups: dict[tuple[str, str], list[ClipResult]] = {}
    for result in results:
        groups.setdefault((result.contestant, result.metric), []).append(result)
    return [verdict(name, anchors[name], metric, group) for (name, metric), group in groups.items()]


def verdict(name: str, anchor: str, metric: str, results: Sequence[ClipResult]) -> Verdict:
    figures = {result.clip: result.bd.percent for result in results if result.bd.percent is not None}
    values = np.array(list(figures.values()))
    better, worse = int((values < -1e-9).sum()), int((values > 1e-9).sum())
    return Verdict(
        contestant=name,
        anchor=anchor,
        metric=metric,
        percent=mean_interval(values) if len(values) else None,
        median=float(np.median(values)) if len(values) else None,
        better=better,
        worse=worse,
        sign_p=_sign_test(better, worse),
        worst=max(figures.items(), key=lambda item: item[1]) if figures else None,
        left_out={r.clip: "; ".join(r.bd.doubts) for r in results if r.bd.percent is None},
        doubted={r.clip: "; ".join(r.bd.doubts) for r in results if r.bd.percent is not None and r.bd.doubts},
    )


def write_records(
    folder: Path,
    points: Sequence[EncodePoint],
    results: Sequence[ClipResult],
    summary: Sequence[Verdict],
    facts: dict[str, Any],
) -> None:
    """points.csv and clips.csv with a row per encode and per BD-rate, summary.json with verdicts and how they came."""
    _write_csv(folder / "points.csv", [point.row() for point in points])
    _write_csv(folder / "clips.csv", [_flat(result) for result in results])
    record = {"facts": facts, "verdicts": [as_record(each) for each in summary]}
    write_atomic(folder / "summary.json", json.dumps(record, indent=2) + "\n")


def as_record(each: Verdict) -> dict[str, Any]:
    """A verdict as plain data."""
    return asdict(each) | {"percent": each.percent._asdict() if each.percent else None}


def table(summary: Sequence[Verdict], metrics: Sequence[str]) -> str:
    """Mean BD-rates with intervals as aligned text: contestants down, metrics across."""
    by_name: dict[str, dict[str, Verdict]] = {}
    for each in summary:
        by_name.setdefault(each.contestant, {})[each.metric] = each
    rows = [["contestant", "against", *metrics]]
    for name, found in by_name.items():
        anchor = next(iter(found.values())).anchor
        rows.append([name, anchor, *(shown(found.get(metric)) for metric in metrics)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def shown(each: Verdict | None) -> str:
    """Mean and interval in percent; clips that gave no figure are counted behind them."""
    if each is None or each.percent is None:
        return "no figure"
    mean, low, high = each.percent
    missing = f" ({len(each.left_out)} left out)" if each.left_out else ""
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]{missing}"


def _curve(points: Sequence[EncodePoint], metric: str) -> list[Point]:
    return [Point(point.measured.kbps, point.measured.quality[metric]) for point in points]


def _sign_test(better: int, worse: int) -> float:
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1)) / 2**count
    return float(min(1.0, 2 * tail))


def _flat(result: ClipResult) -> dict[str, Any]:
    record: dict[str, Any] = asdict(result)
    bd: dict[str, Any] = record.pop("bd")
    return record | {"bd_rate_percent": bd["percent"], "overlap": bd["overlap"], "doubts": "; ".join(bd["doubts"])}


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["nothing"])
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue())
