"""What a race has shown: tables in Markdown, and one page with learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart
from reelrl.runs.progress import spaced
from reelrl.see.measures.scores import psnr_db
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Row = dict[str, Any]

SHOWN = (1_000, 10_000, 100_000)
HELD_OUT = -1
"""Stands for the end, on episodes that were never seen."""

_FIGURES = (("mse", "MSE x 1000"), ("foreground_psnr_db", "foreground PSNR, dB"))
_NONE = "-"
_HOW = (
    "Every frame is scored before it is learned from; the figure at N frames is over the last tenth before N. MSE is "
    "of colours in [0, 1], times 1000. Foreground PSNR pools the pixels that are farther than 0.1 from the game's "
    "median picture. The mean frame and the previous frame are as a learner could know them; the resize sees the frame "
    "itself. Several seeds: the mean, and the least and the most."
)


def marks_of(rows: Sequence[Row]) -> list[int]:
    return sorted({int(mark) for row in rows for mark in row["at"]})


def table(rows: Sequence[Row], mark: int, figure: str) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: a line per contestant, a column per source; best mean over sources first."""
    sources = list(dict.fromkeys(row["source"] for row in rows))
    contestants = list(dict.fromkeys(row["contestant"] for row in rows))
    figures = {(name, source): _values(rows, name, source, mark, figure) for name in contestants for source in sources}
    sign = 1 if figure == "mse" else -1

    def rank(name: str) -> tuple[bool, float]:
        values = [value for source in sources for value in figures[name, source]]
        return not values, sign * sum(values) / max(len(values), 1)

    lines = [
        [name, *(_cell(figures[name, source], figure) for source in sources)]
        for name in sorted(contestants, key=rank)
        if any(figures[name, source] for source in sources)
    ]
    return ["contestant", *(source.removeprefix("ale:") for source in sources)], lines


def markdown(rows: Sequence[Row]) -> str:
    """The tables at 1k, 10k and 100k frames, or at the last mark of a shorter race."""
    parts = [_HOW]
    for mark in _shown_marks(rows):
        for figure, title in _FIGURES:
            heads, lines = table(rows, mark, figure)
            parts.append(f"### {title}, {_when(mark)}")
            rule = ["---", *("---:" for _ in heads[1:])]
            parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines)))
    return "\n\n".join(parts) + "\n"


def write_page(path: Path, rows: Sequence[Row], facts: dict[str, Any]) -> None:
    body = []
    for mark in _shown_marks(rows):
        tables = [page.table(*table(rows, mark, figure), caption=title) for figure, title in _FIGURES]
        body.append(page.section(_when(mark).capitalize(), "Best mean over the games first.", *tables))
    charts = [page.figure(_curves(rows, source), source) for source in dict.fromkeys(row["source"] for row in rows)]
    body.append(page.section("Learning curves", "PSNR before learning from each frame.", page.columns(*charts[:2])))
    body += [page.columns(*charts[place : place + 2]) for place in range(2, len(charts), 2)]
    shown_facts = [(str(key), str(value)) for key, value in facts.items() if key != "command"]
    body.append(page.section("How", _HOW, page.facts(shown_facts), page.code(str(facts.get("command", "")))))
    lead = "Learners that see every frame once, and guesses that cost no learning."
    write_atomic(path, page.page("Learning while watching", lead, body, kicker="reel compare autoencoder"))


def _shown_marks(rows: Sequence[Row]) -> list[int]:
    every = marks_of(rows)
    examined = [HELD_OUT] if any("held_out" in row for row in rows) else []
    return ([mark for mark in SHOWN if mark in every] or every[-1:]) + examined


def _when(mark: int) -> str:
    return "at the end, on unseen episodes" if mark == HELD_OUT else f"at {spaced(mark)} frames"


def _values(rows: Sequence[Row], contestant: str, source: str, mark: int, figure: str) -> list[float]:
    chosen = [row for row in rows if row["contestant"] == contestant and row["source"] == source]
    values = [_at(row, mark).get(figure) for row in chosen]
    return [value for value in values if value is not None]


def _at(row: Row, mark: int) -> Row:
    figures: Row = row.get("held_out", {}) if mark == HELD_OUT else row["at"].get(str(mark), {})
    return figures


def _cell(values: Sequence[float], figure: str) -> str:
    if not values:
        return _NONE
    scale, digits = (1000, 3) if figure == "mse" else (1, 1)
    mean = f"{scale * sum(values) / len(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({scale * min(values):.{digits}f}-{scale * max(values):.{digits}f})"


_STYLES: tuple[dict[str, Any], ...] = (
    {"colour": "one"},
    {"colour": "two", "marker": "square"},
    {"colour": "one", "marker": "square", "dashed": True},
    {"colour": "two", "dashed": True},
)
_PLAIN: dict[str, dict[str, Any]] = {
    "mean frame": {"colour": "quiet", "marker": "none", "dashed": True},
    "previous frame": {"colour": "quiet", "marker": "none"},
    "27x27 resize": {"colour": "quiet", "marker": "square", "dashed": True},
}


def _curves(rows: Sequence[Row], source: str) -> page.Html:
    """PSNR of the mean MSE over seeds; the four best learners at the end, and the baselines."""
    of_source = [row for row in rows if row["source"] == source]
    last = marks_of(of_source)[-1]
    _, ranked = table(of_source, last, "mse")
    learners = [line[0] for line in ranked if line[0] not in _PLAIN][: len(_STYLES)]
    lines = []
    for name in (*learners, *_PLAIN):
        style = _PLAIN[name] if name in _PLAIN else _STYLES[learners.index(name)]
        points = []
        for mark in marks_of(of_source):
            values = _values(of_source, name, source, mark, "mse")
            level = psnr_db(sum(values) / len(values)) if values else None
            if level is not None:
                points.append((float(mark), level))
        notes = [f"{name}, {mark:.0f} frames: {level:.1f} dB" for mark, level in points]
        lines.append(Line(name, points, notes=notes, **style))
    return line_chart(lines, x=Axis("frames", log=True), y=Axis("PSNR, dB"), title=f"{source}: learning curves")
