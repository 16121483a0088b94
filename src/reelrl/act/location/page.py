"""One HTML page about location nets: scores beside baselines, maps, calibration, places, retrieval, the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.act.location.evaluate import VIEWS
from reelrl.act.location.model.net import HEADS
from reelrl.act.location.tables import (
    HEAD_NAMES,
    VIEW_NAMES,
    difference_table,
    metric_table,
    place_records,
    retrieval_table,
    score_table,
)
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.act.location.evaluate import Evaluation
    from reelrl.act.location.retrieval_scores import Found
    from reelrl.content.pictures import Picture
    from reelrl.report.page import Html

_METHOD = (
    "A place is a label: 1 while a living mate, or enemy, is in it. Macro AP is the mean of the average precision over "
    "places. F1 is at thresholds chosen place by place on validation matches, and at 0.5. Calibration error is the "
    "mean distance between an answer and how often such answers come true. Intervals are 95 % bootstrap: matches are "
    "drawn again, and so are seeds; differences are on the same drawings. Baselines that see are told by the game the "
    "exact place of whoever is on screen, and of who watches; the oracle is told of everybody. Sightings by the frame "
    "reader come from the net's own."
)
_RETRIEVAL = (
    "One player's view is the query; a teammate's view of the same moment is right. Wrong ones are other times of the "
    "same match, other matches, and other times of matches on a map that no net has seen."
)


def write_page(
    path: Path, evaluation: Evaluation, found: Sequence[Found], sheet: Picture, facts: dict[str, Any]
) -> None:
    """Everything on one page."""
    body = [_views(evaluation, views) for views in VIEWS]
    maps = page.figure(page.image(sheet, "maps with predictions"), "Blue: players; white: who watches; red: enemies.")
    body.insert(1, page.section("On the map", "The surer the net, the more orange a place.", maps))
    body.append(_calibration(evaluation))
    body.append(_places(evaluation))
    if found:
        body.append(page.section("The same moment, found", _RETRIEVAL, page.table(*retrieval_table(found))))
    told = [(key, str(value)) for key, value in facts.items() if key != "command"]
    body.append(page.section("Method", _METHOD, page.facts(told), page.code(facts["command"])))
    lead = f"{facts['matches']} {evaluation.split} matches on {evaluation.scenes.map}, none of them trained on."
    write_atomic(path, page.page("Where is everybody?", lead, body, kicker="reel evaluate location"))


def _views(evaluation: Evaluation, views: str) -> Html:
    lead = "Mean over seeds, and 95 % interval over matches and seeds. Higher is better, but for calibration error."
    return page.section(
        VIEW_NAMES[views],
        lead,
        page.table(*score_table(evaluation, views, "macro_ap")),
        page.table(*metric_table(evaluation, views)),
        page.table(*difference_table(evaluation, views)),
    )


def _calibration(evaluation: Evaluation) -> Html:
    """A reliability curve per head and kind of views, of the first net and of the strongest baselines."""
    charts = []
    for views in VIEWS:
        for head in HEADS[:2]:
            lines = [Line("perfect", [(0, 0), (1, 1)], colour="quiet", marker="none", dashed=True)]
            names = ["sightings in the clip", *evaluation.nets]
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
