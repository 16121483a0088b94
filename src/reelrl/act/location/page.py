"""One HTML page about location nets: scores beside baselines, maps, calibration, places, retrieval, the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.act.location.evaluate import ALL_HEADS, VIEWS
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.tables import (
    HEAD_NAMES,
    VIEW_NAMES,
    difference_table,
    metric_table,
    place_records,
    retrieval_table,
    score_table,
    shown,
)
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart
from reelrl.report.forest import Row, forest
from reelrl.report.headline import compared
from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.act.location.evaluate import Evaluation, Views
    from reelrl.act.location.retrieval_scores import RetrievalScore
    from reelrl.content.pictures import Picture
    from reelrl.report.page import Html

ORACLE = "oracle"
_METHOD = (
    "A place is a label: 1 while a living mate, or enemy, is in it. Macro AP is the mean of the average precision over "
    "places. F1 is at thresholds chosen place by place on validation matches, and at 0.5. Calibration error is the "
    "mean distance between an answer and how often such answers come true. Intervals are 95 % bootstrap: matches are "
    "drawn again, and so are seeds; differences are on the same drawings. Baselines of sightings are given by the game "
    "the exact place of whoever is on screen, and of who watches; the oracle knows of everybody. Those of the frame "
    "reader get what the net's own reader has read."
)
_LIMITS = (
    "All matches are of one game and one map, played by those who recorded them: what a net knows of the habits of "
    "these players need not hold for others. Baselines of sightings have exact places, which nobody who only sees "
    "pictures has."
)
_RETRIEVAL = (
    "One player's view is the query; a teammate's view of the same moment is right. Wrong ones are other times of the "
    "same match, other matches, and other times of matches on a map that no net has seen."
)


def write_page(
    path: Path, evaluation: Evaluation, retrieval: Sequence[RetrievalScore], sheet: Picture, facts: dict[str, Any]
) -> None:
    """Everything on one page."""
    maps = page.figure(page.image(sheet, "maps with predictions"), "Blue: players; white: who watches; red: enemies.")
    body = [
        _forests(evaluation),
        *(_views(evaluation, views) for views in VIEWS),
        page.section("On the map", "The surer the net, the more orange a place.", maps),
        _calibration(evaluation),
        _places(evaluation),
    ]
    if retrieval:
        body.append(
            page.section("The same moment in a teammate's view", _RETRIEVAL, page.table(*retrieval_table(retrieval)))
        )
    body.append(page.section("What this does not show", _LIMITS))
    named = [(key, str(value)) for key, value in facts.items() if key != "command"]
    body.append(page.section("Method", _METHOD, page.facts(named), page.code(facts["command"])))
    headline, lead = _headline(evaluation, facts["matches"])
    write_atomic(path, page.page(headline, lead, body, kicker="reel evaluate location: where is everybody?"))


def _headline(evaluation: Evaluation, matches: int) -> tuple[str, str]:
    """The first net beside the strongest baseline, through one player's view: the harder question."""
    views: Views = "one"
    net, other = next(iter(evaluation.nets)), _strongest(evaluation, views)
    more = evaluation.difference(views, net, other, ALL_HEADS, "macro_ap")
    own = evaluation.interval(views, net, ALL_HEADS, "macro_ap")
    asked = f"{VIEW_NAMES[views]}, mean over {len(HEADS)} questions: {net} {shown(own)}."
    if matches < LEAST_MATCHES:
        count = f"{matches} {evaluation.split} match{'es' if matches > 1 else ''}"
        return (
            f"{net}: macro AP {own.mean:.3f} on {count}",
            f"{asked} On {evaluation.scenes.map}, not trained on. {TOO_FEW}",
        )
    headline, sure = compared(net, other, more, "macro AP")
    scope = f"{matches} {evaluation.split} matches on {evaluation.scenes.map}, none of them trained on."
    return headline, f"{sure} {asked} {scope}"


def _strongest(evaluation: Evaluation, views: str) -> str:
    """The best baseline that does not know everything."""
    others = [name for name in evaluation.contestants(views) if name not in (*evaluation.nets, ORACLE)]
    return max(others, key=lambda name: evaluation.interval(views, name, ALL_HEADS, "macro_ap").mean)


def _forests(evaluation: Evaluation) -> Html:
    """Everybody's macro AP, nets in colour; the four questions are dots."""
    charts = []
    for views in VIEWS:
        rows = []
        for name in evaluation.contestants(views):
            whole = evaluation.interval(views, name, ALL_HEADS, "macro_ap")
            means = {head: evaluation.interval(views, name, head, "macro_ap").mean for head in HEADS}
            dots = [(f"{name}, {HEAD_NAMES[head]}: {mean:.3f}", mean) for head, mean in means.items()]
            colour = "one" if name in evaluation.nets else "quiet"
            rows.append(Row(name, whole, shown(whole), dots, colour=colour))
        charts.append(page.figure(forest(rows, title=f"Macro AP, {VIEW_NAMES[views].lower()}"), VIEW_NAMES[views]))
    lead = "Macro AP, right is better: mean over the four questions and 95 % interval; each question is a small dot."
    return page.section("Who knows best", lead, page.columns(*charts))


def _views(evaluation: Evaluation, views: str) -> Html:
    lead = "Mean over seeds, and 95 % interval over matches and seeds. Higher is better, but for calibration error."
    return page.section(
        VIEW_NAMES[views],
        lead,
        page.table(*score_table(evaluation, views, "macro_ap"), wrap=True),
        page.table(*metric_table(evaluation, views), wrap=True),
        page.table(*difference_table(evaluation, views), wrap=True),
    )


def _calibration(evaluation: Evaluation) -> Html:
    """A reliability curve per head and kind of views, of the nets and of the strongest baseline."""
    charts = []
    for views in VIEWS:
        for head in HEADS[:2]:
            lines = [Line("perfect", [(0, 0), (1, 1)], colour="quiet", marker="none", dashed=True)]
            names = [_strongest(evaluation, views), *evaluation.nets]
            for number, name in enumerate(names):
                points = evaluation.counts[views, name, head][0].reliability()
                notes = [f"{name}: {count} answers near {said:.2f}, {true:.2f} true" for said, true, count in points]
                colour = ("quiet", "one", "two")[min(number, 2)]
                places = [(said, true) for said, true, _ in points]
                lines.append(Line(name, places, colour=colour, dashed=number > 2, notes=notes))
            title = f"{HEAD_NAMES[head]}, {VIEW_NAMES[views].lower()}"
            chart = line_chart(lines, x=Axis("answered", zero=True), y=Axis("came true", zero=True), title=title)
            charts.append(page.figure(chart, title))
    lead = "Of all answers near a probability, how many came true; the first seed of each net."
    return page.section("Calibration", lead, page.columns(*charts[:2]), page.columns(*charts[2:]))


def _places(evaluation: Evaluation) -> Html:
    """Average precision place by place, first net beside prior and what was seen."""
    records = {(r["views"], r["contestant"], r["head"], r["place"]): r for r in place_records(evaluation)}
    parts = []
    for views in VIEWS:
        names = evaluation.contestants(views)
        for head in HEADS:
            rows = [
                [
                    place,
                    f"{records[views, names[0], head, place]['share']:.1%}",
                    *(f"{records[views, name, head, place]['ap']:.3f}" for name in names),
                ]
                for place in evaluation.scenes.plan.places
            ]
            table = page.table(["place", "share", *names], rows)
            parts.append(page.details(f"{HEAD_NAMES[head]}, {VIEW_NAMES[views].lower()}", table))
    return page.section("Place by place", "Average precision, and how often the place holds somebody.", *parts)
