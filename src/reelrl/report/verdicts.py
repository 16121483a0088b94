"""From BD-rates of single clips to a verdict: the mean with its interval, who won how often, which clip is worst."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.report.bd_rate import BdRate
from reelrl.report.intervals import Floats, Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

METRIC_NAMES = {
    "psnr_y": "PSNR-Y",
    "psnr_y_of_mean": "PSNR-Y of mean error",
    "ssim_db": "SSIM, dB",
    "vmaf": "VMAF",
    "weighted:moving": "PSNR, moving parts",
    "weighted:centre": "PSNR, centre",
    "weighted:detail": "PSNR, detail",
    "weighted:saliency": "PSNR, saliency",
    "weighted:text": "PSNR, text",
}


@dataclass(frozen=True)
class ClipResult:
    """One contestant on one clip by one metric, against its anchor."""

    contestant: str
    anchor: str
    metric: str
    clip: str
    source: str
    split: str
    pristine: bool
    bd: BdRate

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        record: dict[str, Any] = asdict(self)
        bd: dict[str, Any] = record.pop("bd")
        return record | {"bd_rate_percent": bd["percent"], "overlap": bd["overlap"], "doubts": "; ".join(bd["doubts"])}


@dataclass(frozen=True)
class Verdict:
    """One contestant by one metric over all clips.

    percent     mean BD-rate with its interval over clips; None where no clip gives a figure
    better      clips on which it saves bits, and `worse` those on which it loses; same bytes count as neither
    sign_p      chance of such a split if both were equally good (two-sided sign test)
    wilcoxon_p  the same by the signed-rank test, which also looks at how much
    left_out    clips without a figure and why, and `doubted` those whose figure has doubts
    """

    contestant: str
    anchor: str
    metric: str
    percent: Interval | None
    median: float | None
    better: int
    worse: int
    sign_p: float
    wilcoxon_p: float
    worst: tuple[str, float] | None
    left_out: dict[str, str]
    doubted: dict[str, str]

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"percent": self.percent._asdict() if self.percent else None}


def verdicts(results: Sequence[ClipResult]) -> list[Verdict]:
    """One verdict per contestant, anchor and metric, in the order of the results."""
    groups: dict[tuple[str, str, str], list[ClipResult]] = {}
    for result in results:
        groups.setdefault((result.contestant, result.anchor, result.metric), []).append(result)
    return [verdict(group) for group in groups.values()]


def verdict(results: Sequence[ClipResult]) -> Verdict:
    """Over the clips of one contestant, anchor and metric."""
    # A clip is one value, however long it is: its frames and its encodes at several QPs are no independent samples.
    figures = {result.clip: result.bd.percent for result in results if result.bd.percent is not None}
    values = np.array(list(figures.values()))
    better, worse = int((values < -1e-9).sum()), int((values > 1e-9).sum())
    return Verdict(
        contestant=results[0].contestant,
        anchor=results[0].anchor,
        metric=results[0].metric,
        percent=mean_interval(values) if len(values) else None,
        median=float(np.median(values)) if len(values) else None,
        better=better,
        worse=worse,
        sign_p=_sign_test(better, worse),
        wilcoxon_p=_signed_rank_test(values),
        worst=max(figures.items(), key=lambda item: item[1]) if figures else None,
        left_out={r.clip: "; ".join(r.bd.doubts) for r in results if r.bd.percent is None},
        doubted={r.clip: "; ".join(r.bd.doubts) for r in results if r.bd.percent is not None and r.bd.doubts},
    )


def shown(each: Verdict | None) -> str:
    """Mean and interval in percent; clips that gave no figure are counted behind them."""
    if each is None or each.percent is None:
        return "no figure"
    mean, low, high = each.percent
    missing = f" ({len(each.left_out)} left out)" if each.left_out else ""
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]{missing}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text, a column under the other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _sign_test(better: int, worse: int) -> float:
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1)) / 2**count
    return float(min(1.0, 2 * tail))


def _signed_rank_test(values: Floats) -> float:
    """Wilcoxon's: how often signs thrown by chance would give rank sums as uneven as these, counted, not estimated."""
    values = values[np.abs(values) > 1e-9]
    sizes = np.abs(values)
    # Twice the rank, so that those who share one have a whole number too.
    doubled = np.array([np.sum(sizes < size) + np.sum(sizes <= size) + 1 for size in sizes], dtype=np.int64)
    ways = np.ones(1)  # how many of all throws reach each sum, as a share
    for rank in doubled:
        ways = 0.5 * (np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0)))
    reached = int(doubled[values > 0].sum())
    tail = min(float(ways[: reached + 1].sum()), float(ways[reached:].sum()))
    return min(1.0, 2.0 * tail)
