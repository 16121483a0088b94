"""The evaluation of location nets as records: scores.csv, places.csv, summary.json, and tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.act.location.evaluate import ALL_HEADS, VIEWS
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.scores import METRICS
from reelrl.report import records
from reelrl.report.charts import signed
from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from reelrl.act.location.evaluate import Evaluation
    from reelrl.act.location.retrieval_scores import RetrievalScore
    from reelrl.report.intervals import Interval

Rows = list[list[str]]

METRIC_NAMES = {
    "macro_ap": "macro AP",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "macro_f1_at_half": "macro F1 at 0.5",
    "micro_f1_at_half": "micro F1 at 0.5",
    "calibration_error": "calibration error",
}
HEAD_NAMES = {
    "mates_now": "mates now",
    "enemies_now": "enemies now",
    "mates_ahead": "mates ahead",
    "enemies_ahead": "enemies ahead",
    ALL_HEADS: "mean",
}
VIEW_NAMES = {"one": "One player's view", "all": "All players' views"}


def score_records(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "views": views,
            "contestant": name,
            "head": head,
            "metric": metric,
            **_plain(evaluation.interval(views, name, head, metric)),
        }
        for views, name, head, metric in evaluation.scores
    ]


def place_records(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Each place by itself; means over seeds."""
    rows = []
    for (views, name, head), seeds in evaluation.counts.items():
        by_seed = [seed.by_place() for seed in seeds]
        for number, place in enumerate(evaluation.scenes.plan.places):
            figures = {key: float(np.mean([each[key][number] for each in by_seed])) for key in by_seed[0]}
            rows.append({"views": views, "contestant": name, "head": head, "place": place, **figures})
    return rows


def difference_records(evaluation: Evaluation, metrics: Sequence[str] = METRICS) -> list[dict[str, Any]]:
    """Every net against every baseline, and against the nets named after it."""
    rows = []
    for views in VIEWS:
        names = evaluation.contestants(views)
        nets = [name for name in names if name in evaluation.nets]
        pairs = [(net, other) for net in nets for other in names if other not in evaluation.nets]
        pairs += [(net, other) for index, net in enumerate(nets) for other in nets[index + 1 :]]
        rows += [
            {
                "views": views,
                "contestant": name,
                "against": other,
                "head": head,
                "metric": metric,
                **_plain(evaluation.difference(views, name, other, head, metric)),
            }
            for name, other in pairs
            for head in (*HEADS, ALL_HEADS)
            for metric in metrics
        ]
    return rows


def summary(evaluation: Evaluation, retrieval: Sequence[RetrievalScore], facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "facts": facts,
        "scores": score_records(evaluation),
        "differences": difference_records(evaluation),
        "retrieval": [each.record() for each in retrieval],
    }


def write_records(
    folder: Path, evaluation: Evaluation, retrieval: Sequence[RetrievalScore], facts: dict[str, Any]
) -> None:
    tables_of = {"scores": score_records(evaluation), "places": place_records(evaluation)}
    conclusions = summary(evaluation, retrieval, facts)
    del conclusions["facts"]
    records.write(folder, {name: _rounded(rows) for name, rows in tables_of.items()}, conclusions, facts)
    write_atomic(own_path(folder / "report.md"), tables(evaluation, retrieval) + "\n")


def score_table(evaluation: Evaluation, views: str, metric: str) -> tuple[list[str], Rows]:
    """A row per contestant, a column per head."""
    heads = (*HEADS, ALL_HEADS)
    rows = [
        [name, *(shown(evaluation.interval(views, name, head, metric)) for head in heads)]
        for name in evaluation.contestants(views)
    ]
    return [METRIC_NAMES[metric], *(HEAD_NAMES[head] for head in heads)], rows


def metric_table(evaluation: Evaluation, views: str) -> tuple[list[str], Rows]:
    """A row per contestant, a column per metric; means over heads."""
    rows = [
        [name, *(f"{evaluation.interval(views, name, ALL_HEADS, metric).mean:.3f}" for metric in METRICS)]
        for name in evaluation.contestants(views)
    ]
    return ["mean over heads", *METRIC_NAMES.values()], rows


def difference_table(evaluation: Evaluation, views: str, metric: str = "macro_ap") -> tuple[list[str], Rows]:
    """Nets against baselines and against each other."""
    rows: dict[tuple[str, str], list[str]] = {}
    for record in difference_records(evaluation, [metric]):
        if record["views"] == views:
            row = rows.setdefault((record["contestant"], record["against"]), [])
            between = "" if record["low"] is None else f" [{signed(record['low'], 3)}, {signed(record['high'], 3)}]"
            row.append(signed(record["value"], 3) + between)
    heads = ["difference of " + METRIC_NAMES[metric], *(HEAD_NAMES[head] for head in (*HEADS, ALL_HEADS))]
    return heads, [[f"{name} - {other}", *cells] for (name, other), cells in rows.items()]


def retrieval_table(retrieval: Sequence[RetrievalScore]) -> tuple[list[str], Rows]:
    rows = []
    for each in retrieval:
        figures = each.figures
        share = f" [{each.top1.low:.3f}, {each.top1.high:.3f}]" if each.top1 else ""
        rest = [f"{value:.3f}" for value in (figures.top3, figures.top5, figures.mrr, figures.chance)]
        rows.append([each.contestant, each.kind, f"{figures.top1:.3f}{share}", *rest, str(figures.queries)])
    return ["retrieval", "among", "top-1", "top-3", "top-5", "MRR", "chance of top-1", "queries"], rows


def tables(evaluation: Evaluation, retrieval: Sequence[RetrievalScore]) -> str:
    """All of it as Markdown."""
    matches = evaluation.matches
    parts = (
        [f"{matches} {evaluation.split} match{'es' if matches > 1 else ''}. {TOO_FEW}"]
        if matches < LEAST_MATCHES
        else []
    )
    for views in VIEWS:
        parts.append(f"### {VIEW_NAMES[views]}")
        parts.append(_markdown(*score_table(evaluation, views, "macro_ap")))
        parts.append(_markdown(*metric_table(evaluation, views)))
        parts.append(_markdown(*difference_table(evaluation, views)))
    if retrieval:
        parts += ["### Retrieval", _markdown(*retrieval_table(retrieval))]
    return "\n\n".join(parts)


def shown(interval: Interval) -> str:
    return f"{interval.mean:.3f}" + (f" [{interval.low:.3f}, {interval.high:.3f}]" if interval.is_known else "")


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _plain(interval: Interval) -> dict[str, float | None]:
    return dict(zip(("value", "low", "high"), interval.plain(), strict=True))


def _rounded(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Six digits: more than the intervals are worth, and files that can be compared."""
    return [{key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows]
