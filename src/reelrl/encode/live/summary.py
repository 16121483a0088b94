"""Live coding in tables: who is late how often, how rates are met, BD-rates against cbr of the same buffer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.content.catalogue import split_of
from reelrl.encode.clip_choice import PRISTINE
from reelrl.encode.live.evaluate import CBR, CQP
from reelrl.report.bd_rate import Point, bd_rate
from reelrl.report.verdicts import ClipResult, Verdict, aligned, shown, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.live.evaluate import LivePoint
    from reelrl.report.interpolation import Method

METRICS = ("psnr_y", "psnr_y_of_mean")
ALL = "all"


@dataclass(frozen=True)
class LiveRow:
    """One contestant on one set with one buffer.

    late, dropped   shares of the frames
    of_cbr          late frames against those of cbr on the same clips; None where cbr has none
    error           mean distance from the target rate in percent; `bias` with its sign
    bd              verdicts against cbr by metric; none for cbr itself
    """

    set: str
    buffer_s: float
    contestant: str
    clips: int
    late: float
    of_cbr: float | None
    dropped: float
    error: float
    bias: float
    decision_us: float
    decision_p99_us: float
    look_us: float
    cpu_s: float
    bd: dict[str, Verdict]

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"bd": {metric: each.record() for metric, each in self.bd.items()}}


def clip_results(points: Sequence[LivePoint], method: Method = "pchip") -> list[ClipResult]:
    """BD-rates of everybody against cbr of the same buffer, clip by clip."""
    curves: dict[tuple[str, float, str], list[LivePoint]] = {}
    for point in points:
        curves.setdefault((point.contestant, point.buffer_s, point.clip), []).append(point)
    results = []
    for (name, buffer_s, clip), own in curves.items():
        if name == CBR:
            continue
        one, theirs = own[0], curves[CBR, buffer_s, clip]
        results += [
            ClipResult(
                contestant=f"{name}, {buffer_s:g} s",
                anchor=f"{CBR}, {buffer_s:g} s",
                metric=metric,
                clip=clip,
                source=one.source,
                split=split_of(one.source),
                pristine=one.source.startswith(PRISTINE),
                bd=bd_rate(_curve(theirs, metric), _curve(own, metric), method),
            )
            for metric in METRICS
        ]
    return results


def rows_of(points: Sequence[LivePoint], results: Sequence[ClipResult]) -> list[LiveRow]:
    """A row for each set, buffer and contestant, and at the end for all sets together."""
    sets = [*dict.fromkeys(point.set for point in points), ALL]
    buffers = dict.fromkeys(point.buffer_s for point in points)
    names = list(dict.fromkeys(point.contestant for point in points))
    return [
        _row(kind, buffer_s, name, [p for p in points if p.buffer_s == buffer_s and kind in (p.set, ALL)], results)
        for kind in sets
        for buffer_s in buffers
        for name in names
    ]


def _row(kind: str, buffer_s: float, name: str, points: Sequence[LivePoint], results: Sequence[ClipResult]) -> LiveRow:
    own = [point for point in points if point.contestant == name]
    theirs = sum(point.late for point in points if point.contestant == CBR)
    frames, late = sum(point.frames for point in own), sum(point.late for point in own)
    clips = {point.clip for point in own}
    label = f"{name}, {buffer_s:g} s"
    bd = {}
    for metric in METRICS:
        found = [each for each in results if (each.contestant, each.metric) == (label, metric) and each.clip in clips]
        if found:
            bd[metric] = verdict(found)
    errors = np.array([point.error_percent for point in own])
    return LiveRow(
        set=kind,
        buffer_s=buffer_s,
        contestant=name,
        clips=len(clips),
        late=late / frames,
        of_cbr=late / theirs if theirs else None,
        dropped=sum(point.dropped for point in own) / frames,
        error=float(np.abs(errors).mean()),
        bias=float(errors.mean()),
        decision_us=float(np.median([point.decision_us for point in own])),
        decision_p99_us=float(np.median([point.decision_p99_us for point in own])),
        look_us=float(np.median([point.look_us for point in own])),
        cpu_s=sum(point.cpu_s for point in own),
        bd=bd,
    )


def heads_and_cells(rows: Sequence[LiveRow]) -> tuple[list[str], list[list[str]]]:
    """The table as text."""
    heads = ["set", "buffer", "contestant", "late", "of cbr's", "dropped", "rate off, %", "mean, %"]
    heads += ["PSNR-Y vs cbr", "PSNR of mean error vs cbr", "decision, us"]
    cells = []
    for row in rows:
        of_cbr = "-" if row.of_cbr is None or row.contestant == CBR else f"{row.of_cbr:.2f}"
        rate = ["-", "-"] if row.contestant == CQP else [f"{row.error:.1f}", f"{row.bias:+.1f}"]
        bd = [shown(row.bd.get(metric)) if row.bd else "-" for metric in METRICS]
        takes = f"{row.decision_us:.0f}" if row.decision_us else "-"
        dropped = f"{row.dropped:.1%}" if row.dropped else "-"
        cells.append(
            [row.set, f"{row.buffer_s:g} s", row.contestant, f"{row.late:.1%}", of_cbr, dropped, *rate, *bd, takes]
        )
    return heads, cells


def table(rows: Sequence[LiveRow]) -> str:
    heads, cells = heads_and_cells(rows)
    return aligned([heads, *cells])


def _curve(points: Sequence[LivePoint], metric: str) -> list[Point]:
    return [Point(point.kbps, point.quality[metric]) for point in points]
