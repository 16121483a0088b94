"""The evaluation of frozen views as records: scores.csv, differences.csv, retrieval.csv, summary.json, report.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.act.location.tables import retrieval_table
from reelrl.act.views.evaluate import FEWEST, MEAN, PRIOR
from reelrl.act.views.probes import PROBES
from reelrl.act.views.questions import NAMES
from reelrl.report import records
from reelrl.report.charts import signed
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from reelrl.act.views.evaluate import ViewsEvaluation
    from reelrl.report.intervals import Interval

Rows = list[list[str]]


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def matches_in_words(evaluation: ViewsEvaluation) -> str:
    """How many matches there are, and whether that is enough."""
    count = f"{evaluation.matches} {evaluation.asked.split} match{'es' if evaluation.matches != 1 else ''}"
    return count if evaluation.sure else f"{count}: too few for intervals, which want {FEWEST}"


def score_table(evaluation: ViewsEvaluation, probe: str, question: str = MEAN) -> tuple[list[str], Rows]:
    """A row per encoder, a column per share of labels."""
    heads = [question, *(f"{percent(share)}, {count} views" for share, count in evaluation.labelled.items())]
    rows = [
        [name, *(_shown(evaluation, evaluation.interval(name, probe, share, question)) for share in evaluation.shares)]
        for name in (PRIOR, *evaluation.encoders)
    ]
    return heads, rows


def question_table(evaluation: ViewsEvaluation, probe: str, share: float) -> tuple[list[str], Rows]:
    """A row per encoder, a column per question; means alone."""
    rows = [
        [name, *(f"{evaluation.interval(name, probe, share, question).mean:.3f}" for question in (*NAMES, MEAN))]
        for name in (PRIOR, *evaluation.encoders)
    ]
    return [percent(share), *NAMES, MEAN], rows


def difference_table(evaluation: ViewsEvaluation, probe: str, name: str) -> tuple[list[str], Rows]:
    """One encoder against all others, a column per share of labels."""
    rows = []
    for other in evaluation.encoders:
        if other != name:
            cells = [evaluation.difference(name, other, probe, share) for share in evaluation.shares]
            rows.append([other, *(_more(evaluation, each) for each in cells)])
    return [f"{name} above", *(percent(share) for share in evaluation.shares)], rows


def score_records(evaluation: ViewsEvaluation) -> list[dict[str, Any]]:
    return [
        {"encoder": name, "probe": probe, "labels": share, "question": question, **_plain(evaluation, measured)}
        for name, probe, share, question in evaluation.scores
        for measured in [evaluation.interval(name, probe, share, question)]
    ]


def difference_records(evaluation: ViewsEvaluation) -> list[dict[str, Any]]:
    """Every encoder against every one named after it, in the mean over questions."""
    names = evaluation.encoders
    return [
        {
            "encoder": name,
            "against": other,
            "probe": probe,
            "labels": share,
            **_plain(evaluation, evaluation.difference(name, other, probe, share)),
        }
        for number, name in enumerate(names)
        for other in names[number + 1 :]
        for probe in PROBES
        for share in evaluation.shares
    ]


def write_records(folder: Path, evaluation: ViewsEvaluation, facts: dict[str, Any]) -> None:
    found = {
        "scores": score_records(evaluation),
        "differences": difference_records(evaluation),
        "retrieval": [each.record() for each in evaluation.retrieval],
    }
    tables_of = {name: [_rounded(row) for row in rows] for name, rows in found.items()}
    records.write(folder, tables_of, {"differences": found["differences"], "retrieval": found["retrieval"]}, facts)
    write_atomic(own_path(folder / "report.md"), tables(evaluation) + "\n")


def tables(evaluation: ViewsEvaluation) -> str:
    """All of it as Markdown."""
    parts = [f"{matches_in_words(evaluation)} on {evaluation.asked.map}."]
    for probe in PROBES:
        parts += [f"### {probe.capitalize()} probe: average precision by share of labels"]
        parts += [_markdown(*score_table(evaluation, probe))]
        parts += [_markdown(*difference_table(evaluation, probe, name)) for name in shown_against(evaluation)]
    for share in evaluation.shares:
        parts += [
            f"### Linear probe, {percent(share)} of labels",
            _markdown(*question_table(evaluation, "linear", share)),
        ]
    if evaluation.retrieval:
        parts += ["### Retrieval", _markdown(*retrieval_table(evaluation.retrieval))]
    return "\n\n".join(parts)


def shown_against(evaluation: ViewsEvaluation) -> list[str]:
    """Whose lead over the others is shown: contrastive encoders, or the first if there is none."""
    named = [name for name in evaluation.encoders if name.startswith("contrastive")]
    return named or evaluation.encoders[:1]


def _shown(evaluation: ViewsEvaluation, each: Interval) -> str:
    return f"{each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]" if evaluation.sure else f"{each.mean:.3f}"


def _more(evaluation: ViewsEvaluation, each: Interval) -> str:
    spread = f" [{signed(each.low, 3)}, {signed(each.high, 3)}]" if evaluation.sure else ""
    return signed(each.mean, 3) + spread


def _plain(evaluation: ViewsEvaluation, each: Interval) -> dict[str, float | None]:
    low, high = (each.low, each.high) if evaluation.sure else (None, None)
    return {"value": each.mean, "low": low, "high": high}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
