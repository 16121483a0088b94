"""One HTML page about frozen encoders of views: average precision by share of labels, differences, retrieval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.act.location.tables import retrieval_table
from reelrl.act.views.evaluate import PRIOR
from reelrl.act.views.probes import PROBES
from reelrl.act.views.tables import (
    difference_table,
    matches_in_words,
    percent,
    question_table,
    score_table,
    shown_against,
)
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, line_style
from reelrl.report.headline import compared
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.views.evaluate import ViewsEvaluation
    from reelrl.report.page import Html

_METHOD = (
    "An encoder is frozen. A probe reads one view's embedding and says of each place whether a mate, or an enemy, is "
    "there now, and 2, 5 and 10 seconds later; it learns from a share of the training moments, the same ones for every "
    "encoder. The linear probe is a ridge regression solved exactly, the small one has a hidden layer of 64. How "
    "strongly they are regularised is chosen on validation matches. Macro AP is the mean of the average precision over "
    "places. Three seeds: of the encoder, where it was trained three times, and of which moments have labels. "
    "Intervals are 95 % bootstrap: matches are drawn again, and so are seeds; differences are on the same drawings."
)
_LIMITS = (
    "One game, and players who roam as they were programmed to. A single picture without memory answers; nets that "
    "remember know more. Embeddings wider than 512 are cut to their first 512 principal components before they are "
    "probed."
)
_RETRIEVAL = (
    "One player's view is the query; a mate's view of the same moment is right. Wrong ones are other times of the same "
    "match, other matches, and other times of matches on a map that no encoder has seen. Embeddings are compared by "
    "cosine, each number scaled by what it is over training views."
)


def write_page(path: Path, evaluation: ViewsEvaluation, facts: dict[str, Any]) -> None:
    """Everything on one page."""
    body = [
        _curves(evaluation),
        *(_probe(evaluation, probe) for probe in PROBES),
        page.section(
            "Question by question",
            "Macro AP of the linear probe.",
            *(page.table(*question_table(evaluation, "linear", share), wrap=True) for share in evaluation.shares),
        ),
    ]
    if evaluation.retrieval:
        table = page.table(*retrieval_table(evaluation.retrieval), wrap=True)
        body.append(page.section("The same moment in a mate's view", _RETRIEVAL, table))
    body.append(page.section("What this does not show", _LIMITS))
    named = [(key, str(value)) for key, value in facts.items() if key != "command"]
    body.append(page.section("Method", _METHOD, page.facts(named), page.code(facts["command"])))
    headline, lead = _headline(evaluation)
    write_atomic(path, page.page(headline, lead, body, kicker="reel evaluate views: what one view tells"))


def _headline(evaluation: ViewsEvaluation) -> tuple[str, str]:
    """The first contrastive encoder beside the first other one, with the smallest share of labels from 5 % up."""
    share = next((each for each in sorted(evaluation.shares) if each >= 0.05), max(evaluation.shares))
    name = shown_against(evaluation)[0]
    scope = f"{matches_in_words(evaluation)} on {evaluation.asked.map}, none of them trained on."
    others = [other for other in evaluation.encoders if other != name]
    if not evaluation.sure or not others:
        own = evaluation.interval(name, "linear", share)
        return f"{name}: macro AP {own.mean:.3f} with {percent(share)} of labels", scope
    more = evaluation.difference(name, others[0], "linear", share)
    headline, sure = compared(name, others[0], more, "macro AP")
    return f"With {percent(share)} of labels: {headline}", f"{sure} {scope}"


def _curves(evaluation: ViewsEvaluation) -> Html:
    charts = []
    for probe in PROBES:
        lines = []
        for number, name in enumerate((*evaluation.encoders, PRIOR)):
            points = [(100 * s, evaluation.interval(name, probe, s).mean) for s in sorted(evaluation.shares)]
            notes = [f"{name}, {share:g} % of labels: {value:.3f}" for share, value in points]
            style = {"colour": "quiet", "dashed": True} if name == PRIOR else line_style(number)
            lines.append(Line(name, points, notes=notes, **style))
        title = f"macro AP, {probe} probe"
        chart = line_chart(
            lines, x=Axis("% of training moments with labels", log=True), y=Axis("macro AP"), title=title
        )
        charts.append(page.figure(chart, title))
    return page.section(
        "How many labels it takes", "Mean over eight questions; higher is better.", page.columns(*charts)
    )


def _probe(evaluation: ViewsEvaluation, probe: str) -> Html:
    return page.section(
        f"{probe.capitalize()} probe",
        "Macro AP, mean over eight questions and three seeds, and 95 % interval over matches and seeds.",
        page.table(*score_table(evaluation, probe), wrap=True),
        *(page.table(*difference_table(evaluation, probe, name), wrap=True) for name in shown_against(evaluation)),
    )
