"""What a race of players has shown: a table in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.report.intervals import Interval, mean_interval, seeds_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, Any]

CHANCE = "chance"
HOW = (
    "Mean return of the episodes that ended in the last fifth of the frames, while the players still learned and "
    "explored (of chance: of all). Over seeds, with Student's 95 % interval; of one seed a bootstrap over its episodes."
)


def markdown(rows: Sequence[Row], between: tuple[int, int] | None = None) -> str:
    """A line per game, a column per contestant; the last line counts the players above chance.

    With `between` the returns are those of the learning curves' stretches that end there, of chance all as ever.
    """
    if between:
        rows = [row if row["contestant"] == CHANCE else row | {"late": _on_curve(row, *between)} for row in rows]
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    names.sort(key=lambda name: name != CHANCE)
    sources = list(dict.fromkeys(row["source"] for row in rows))
    lines = [["game", *names], ["---", *("---:" for _ in names)]]
    lines += [[source.removeprefix("ale:"), *(_cell(rows, name, source) for name in names)] for source in sources]
    if CHANCE in names:
        lines.append(["above chance", "", *(_above_chance(rows, name) for name in names[1:])])
    what = f"Of learning curves' stretches that end at frames {between[0]} to {between[1]}." if between else HOW
    return what + "\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _on_curve(row: Row, first: int, last: int) -> list[float]:
    """The means of the stretches that ended at these frames."""
    ends = ((number * row["stretch"], mean) for number, mean in enumerate(row["curve"], 1))
    return [mean for end, mean in ends if first <= end <= last and mean is not None]


def late_return(rows: Sequence[Row], name: str, source: str) -> Interval | None:
    """A contestant's return in a game; None where no episode ended late."""
    returns = _returns(rows, name, source)
    if not returns:
        return None
    if len(returns) == 1:
        return mean_interval(np.array(next(iter(returns.values()))))
    return seeds_interval(np.array([np.mean(each) for each in returns.values()]))


def _returns(rows: Sequence[Row], name: str, source: str) -> dict[int, list[float]]:
    """Late returns by seed."""
    chosen = [row for row in rows if (row["contestant"], row["source"]) == (name, source) and row["late"]]
    return {row["seed"]: row["late"] for row in chosen}


def _cell(rows: Sequence[Row], name: str, source: str) -> str:
    interval = late_return(rows, name, source)
    if interval is None:
        return "-"
    digits = 1 if abs(interval.mean) < 100 else 0
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _above_chance(rows: Sequence[Row], name: str) -> str:
    above = played = 0
    for source in dict.fromkeys(row["source"] for row in rows):
        chance = late_return(rows, CHANCE, source)
        for returns in _returns(rows, name, source).values():
            played += 1
            above += chance is not None and float(np.mean(returns)) > chance.mean
    return f"{above} of {played}"
