"""What a sweep leaves: its table, the best settings, and a page with the importance of each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.report import records
from reelrl.report.charts import Axis, Line, line_chart
from reelrl.report.page import Html, code, facts, figure, join, page, section, table, tag
from reelrl.settings import yaml_text
from reelrl.storage.files import write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.runs.sweep import Sweep, TrialRow

_BAR, _ROW, _NAMES = 360, 26, 220


def write_results(sweep: Sweep, command: str) -> dict[str, Any]:
    """Write the folder's files; returns the summary."""
    rows, best, shares = sweep.rows(), sweep.best(), sweep.importances()
    summary: dict[str, Any] = {
        "best": None if best is None else best.row(),
        "importances": shares,
        "states": {state: sum(row.state == state for row in rows) for state in ("done", "pruned", "failed")},
    }
    about = {"command": command, "train": sweep.plan.train, "figure": sweep.plan.figure, "goal": sweep.plan.goal}
    records.write(sweep.folder, {"trials": [row.row() for row in rows]}, summary, about)
    best_text = yaml_text.write(sweep.best_config())
    own = own_path(sweep.folder / "best.yaml")
    write_atomic(own, best_text)
    body = [
        section(
            "Best settings",
            f"What differs from the defaults, for --config {sweep.folder / 'best.yaml'}.",
            code(best_text),
        ),
        section("Trials", "The figure of each trial, and the best so far.", figure(_history(sweep, rows), _CAPTION)),
    ]
    if shares:
        body.append(
            section("What matters", _IMPORTANCE, figure(bars(shares), "Shares of PED-ANOVA; they add up to 1."))
        )
    body += [section("All trials", "", _table(rows)), facts([(key, str(value)) for key, value in about.items()])]
    lead = f"{len(rows)} trials of reel train {sweep.plan.train}; {sweep.plan.goal} {sweep.plan.figure}."
    write_atomic(own_path(sweep.folder / "index.html"), page("Sweep", lead, body))
    return {"facts": about, **summary}


_CAPTION = "Pruned trials stand at the figure that they had when they were ended."
_IMPORTANCE = "How much each setting has to do with a trial being among the better ones, within the ranges searched."


def bars(shares: Mapping[str, float]) -> Html:
    """A horizontal bar for each share, the largest first."""
    parts = []
    for number, (name, share) in enumerate(sorted(shares.items(), key=lambda item: -item[1])):
        top = number * _ROW
        parts += [
            tag("text", name, x=_NAMES - 10, y=top + 17, text_anchor="end", fill="currentColor", font_size=13),
            tag(
                "rect", x=_NAMES, y=top + 5, width=max(1.0, round(share * _BAR, 1)), height=_ROW - 10, fill="var(--one)"
            ),
            tag("text", f"{share:.1%}", x=_NAMES + share * _BAR + 8, y=top + 17, fill="currentColor", font_size=13),
        ]
    size = f"0 0 {_NAMES + _BAR + 70} {len(shares) * _ROW}"
    return tag("svg", join(parts), viewBox=size, role="img", aria_label="importance of each setting")


def _history(sweep: Sweep, rows: list[TrialRow]) -> Html:
    valued = [(row.number, row.value, row.state) for row in rows if row.value is not None]
    better = max if sweep.plan.goal == "maximise" else min
    done = [(number, value) for number, value, state in valued if state == "done"]
    best = [(number, better(value for _, value in done[: place + 1])) for place, (number, _) in enumerate(done)]
    lines = [
        Line("trial", [(float(number), value) for number, value, _ in valued], joined=False),
        Line("best so far", [(float(number), value) for number, value in best], colour="two", marker="none"),
    ]
    return line_chart(lines, x=Axis("trial"), y=Axis(sweep.plan.figure), title=f"{sweep.plan.figure} of each trial")


def _table(rows: list[TrialRow]) -> Html:
    keys = list(dict.fromkeys(key for row in rows for key in row.settings))
    heads = ["trial", "state", "figure", *keys, "seconds"]
    cells = [
        [
            str(row.number),
            row.state,
            "" if row.value is None else f"{row.value:.4g}",
            *(_brief(row.settings.get(key, "")) for key in keys),
            f"{row.seconds:.0f}",
        ]
        for row in rows
    ]
    return table(heads, cells)


def _brief(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
