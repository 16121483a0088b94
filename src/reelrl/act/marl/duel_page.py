"""The page of `reel evaluate doom` for two sides: a table of side A against side B."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.report import page
from reelrl.report.charts import signed
from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.act.marl.duels import DuelRow
    from reelrl.report.intervals import Interval
    from reelrl.report.page import Html

_METHOD = (
    "Every pair plays the same seeds in fresh engines. A cell is side A's return: what it earns, frags by the "
    "scenario's own weights, less what side B earns. Chance draws each action with equal probability; sweep and fire "
    "are blind: they turn and shoot whatever is there. Oracle knows where everybody is. Intervals are 95 % bootstrap "
    "over matches."
)
_LIMITS = (
    "Who beats whom is no order: one may lose to a team that loses to a third. How much another training would "
    "differ, only runs with other seeds can show. With more than two players the engine does not repeat a match to "
    "the byte."
)


def write_page(path: Path, rows: Sequence[DuelRow], facts: Mapping[str, Any]) -> None:
    """All of an evaluation."""
    best = max((row for row in rows if row.pair[0] != row.pair[1]), key=lambda row: row.ahead.mean)
    one, other = (_title(name) for name in best.pair)
    headline = f"{one} is ahead of {other} by {best.ahead.mean:.2f} per match, the most of all pairs"
    lead = f"{facts['matches']} matches of {facts['scenario']} for each pair, {facts['players']} players."
    if int(facts["matches"]) < LEAST_MATCHES:
        lead = f"{lead} {TOO_FEW}"
    body = [
        page.section(
            "Side A against side B",
            "By how much side A, a column, is ahead of side B, a row, per match.",
            _cross_table(rows),
        ),
        page.section("What it is made of", "Means per match, of side A.", _frags_table(rows)),
        page.section("What this does not show", _LIMITS),
        page.section("Method", _METHOD, _facts(facts), page.code(str(facts["command"]))),
    ]
    write_atomic(path, page.page(headline[0].upper() + headline[1:], lead, body, kicker="reel evaluate doom"))


def _cross_table(rows: Sequence[DuelRow]) -> Html:
    cells = {row.pair: cell(row.ahead) for row in rows}
    ours, theirs = (list(dict.fromkeys(row.pair[side] for row in rows)) for side in (0, 1))
    lines = [[_title(other), *(cells.get((one, other), "") for one in ours)] for other in theirs]
    return page.table(["side B", *map(_title, ours)], lines, wrap=True)


def _frags_table(rows: Sequence[DuelRow]) -> Html:
    lines = [
        [f"{_title(row.pair[0])} against {_title(row.pair[1])}", f"{row.frags:.1f}", f"{row.deaths:.1f}"]
        for row in rows
    ]
    return page.table(["pair", "frags", "deaths"], lines)


def cell(ahead: Interval) -> str:
    """By how much side A is ahead, and the interval where there is one."""
    between = f" [{signed(ahead.low, 2)}, {signed(ahead.high, 2)}]" if ahead.is_known else ""
    return signed(ahead.mean, 2) + between


def _title(name: str) -> str:
    """A name that fits into a table: of a run its folder's, of a file in a run both."""
    parts = Path(name).parts
    if len(parts) < 2:
        return name
    return f"{parts[-3]} {Path(name).stem}" if len(parts) > 2 and parts[-2] == "artifacts" else parts[-1]


def _facts(facts: Mapping[str, Any]) -> Html:
    return page.facts((key, str(value)) for key, value in facts.items() if key != "command")
