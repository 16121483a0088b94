"""Bitrate controllers x traces x videos: played in parallel, summed up with intervals and paired comparisons."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.errors import ConfigError
from reelrl.parallel import executor
from reelrl.report import records as record_files
from reelrl.report.intervals import Interval, mean_interval, paired_interval
from reelrl.runs.progress import Progress
from reelrl.stream.playback import Playback, load_bitrate_controller, play

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.stream.data.ladders import Ladder
    from reelrl.stream.data.traces import Trace

CHUNK_OF_TRACES = 8


@dataclass(frozen=True)
class Contestant:
    """A line of the table: one controller, or several trainings of one whose sessions are averaged trace by trace."""

    name: str
    members: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Contestant:
        """`bba(5,10)`, `runs/0007`, or `name=runs/0007,runs/0008` for several seeds of one training."""
        name, equals, rest = text.partition("=")
        if equals and "(" in name:
            raise ConfigError(f"{text}: before = stands a label, whose arguments would be lost; leave its brackets out")
        # Commas within brackets belong to a controller's arguments.
        return Contestant(name, tuple(re.split(r",(?![^(]*\))", rest))) if equals else Contestant(text, (text,))


Contender = Contestant  # its name in version 0.1


@dataclass(frozen=True)
class EvaluationPlan:
    """How sessions are played; the defaults are the field's: Pensieve's simulator, no noise."""

    preset: str | None = "pensieve"
    noise: bool = False
    qoe: str = "linear"
    seed: int = 0
    buffer_s: float | None = None  # how far ahead players download; None: a minute


@dataclass(frozen=True)
class SummaryRow:
    """One contestant, summed up; `best_share` is its part of what one reached that knew the future.

    `optimum`: it was shown in every session that nothing better was possible.
    """

    name: str
    qoe: Interval
    median: float
    p10: float
    quality: float
    rebuffer: float
    smooth: float
    rebuffer_s: float
    switches: float  # of a session
    privileged: bool
    paired: Interval | None
    best_share: float | None
    optimum: bool = False

    @property
    def title(self) -> str:
        """The name as tables show it: an oracle whose plans are not proven is only the best found."""
        if not self.privileged:
            return self.name
        name = self.name if self.optimum else self.name.replace("oracle", "best found")
        return f"{name} (knows the future)"


def play_all(
    contestants: Sequence[Contestant], traces: list[Trace], ladders: list[Ladder], plan: EvaluationPlan, jobs: int = 1
) -> dict[str, list[Playback]]:
    """Every member of every contestant on every trace and video; results in the order of the arguments."""
    names = [contestant.name for contestant in contestants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two contestants are called {twice!r}; name one otherwise, as in other={twice}")
    for member in (member for contestant in contestants for member in contestant.members):
        load_bitrate_controller(member)  # whoever is not there is no fault of a task
    tasks = [
        (contestant.name, member, traces[start : start + CHUNK_OF_TRACES], ladder, plan)
        for contestant in contestants
        for member in contestant.members
        for ladder in ladders
        for start in range(0, len(traces), CHUNK_OF_TRACES)
    ]
    played: dict[str, list[Playback]] = {contestant.name: [] for contestant in contestants}
    with Progress("play", sum(len(task[2]) for task in tasks), unit="sessions") as progress, executor(jobs) as work:
        records = work.map(_play_batch, tasks, name=lambda task: f"{task[1]} on traces from {task[2][0].name} on")
        said: set[str] = set()
        for (name, *_), (batch, warned) in zip(tasks, records, strict=True):
            played[name] += batch
            progress.update(len(batch))
            for message in sorted(warned - said):
                warnings.warn(message, stacklevel=2)
            said |= warned
    return played


def _play_batch(task: tuple[str, str, list[Trace], Ladder, EvaluationPlan]) -> tuple[list[Playback], set[str]]:
    """The sessions, and what the controller warned about: many tasks, in many processes, would all say it."""
    name, member, traces, ladder, how = task
    controller = load_bitrate_controller(member)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        batch = [play(controller, trace, ladder, name=name, **vars(how)) for trace in traces]
    return batch, {str(warning.message) for warning in warned}


def scores(playbacks: list[Playback], members: int, field: str = "qoe") -> np.ndarray[Any, np.dtype[np.float64]]:
    """One number per trace and video, averaged over members."""
    values = np.array([getattr(playback, field) for playback in playbacks], dtype=np.float64)
    averaged: np.ndarray[Any, np.dtype[np.float64]] = values.reshape(members, -1).mean(axis=0)
    return averaged


def summarise(
    contestants: Sequence[Contestant], played: dict[str, list[Playback]], reference: str | None = None
) -> list[SummaryRow]:
    """The table, best first. `reference` names the contestant that the others are compared with, pair by pair."""
    members = {contestant.name: len(contestant.members) for contestant in contestants}
    if reference is not None and reference not in members:
        raise ConfigError(f"reference = {reference!r} is not among the controllers {', '.join(members)}; add it")
    ceiling = next((c for c in contestants if load_bitrate_controller(c.members[0]).privileged), None)
    best = scores(played[ceiling.name], members[ceiling.name]).mean() if ceiling else 0.0
    lines = []
    for contestant in contestants:
        name, count = contestant.name, members[contestant.name]
        values = scores(played[name], count)
        paired = None
        if reference is not None and name != reference:
            paired = paired_interval(values, scores(played[reference], members[reference]))
        means = {
            field: float(scores(played[name], count, field).mean())
            for field in ("quality", "rebuffer", "smooth", "rebuffer_s", "switches")
        }
        lines.append(
            SummaryRow(
                name=name,
                qoe=mean_interval(values),
                median=float(np.median(values)),
                p10=float(np.percentile(values, 10)),
                privileged=contestant is ceiling,
                paired=paired,
                best_share=float(values.mean() / best) if best > 0 else None,
                optimum=all(playback.optimum for playback in played[name]),
                **means,
            )
        )
    return sorted(lines, key=lambda line: -line.qoe.mean)


def share_title(lines: list[SummaryRow]) -> str:
    """The head of the column of `best_share`: what it is a share of."""
    return "of optimum" if all(line.optimum for line in lines if line.privileged) else "of best found"


def table(lines: list[SummaryRow], reference: str | None) -> str:
    """The summary as aligned text."""
    heads = [
        "controller",
        "QoE [95 %]",
        "median",
        "p10",
        "quality",
        "rebuffer",
        "smooth",
        "stall s",
        "switches",
        share_title(lines),
    ]
    heads += [f"against {reference} [95 %]"] if reference else []
    rows = [heads, *(_cells(line, reference) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cells(line: SummaryRow, reference: str | None) -> list[str]:
    share = "" if line.best_share is None else f"{100 * line.best_share:.1f} %"
    numbers = [f"{value:.3f}" for value in (line.median, line.p10, line.quality, line.rebuffer, line.smooth)]
    cells = [line.title, str(line.qoe), *numbers, f"{line.rebuffer_s:.2f}", f"{line.switches:.1f}", share]
    return cells + ([str(line.paired) if line.paired else ""] if reference else [])


def markdown(sets: dict[str, list[SummaryRow]], reference: str | None) -> str:
    """One table of every contestant on every set, for a page."""
    heads = ["set", "controller", "QoE", "median", "p10", "stall s", "switches", "share"]
    heads += [f"against {reference}, paired 95 %"] if reference else []
    rows = [heads, ["---"] * len(heads)]
    for label, lines in sets.items():
        for line in lines:
            share = "" if line.best_share is None else f"{100 * line.best_share:.1f} %"
            numbers = [f"{value:.3f}" for value in (line.qoe.mean, line.median, line.p10)]
            paired = [str(line.paired) if line.paired else ""] if reference else []
            rows.append([label, line.title, *numbers, f"{line.rebuffer_s:.2f}", f"{line.switches:.1f}", share, *paired])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_records(
    folder: Path, lines: list[SummaryRow], played: dict[str, list[Playback]], facts: dict[str, Any]
) -> None:
    """sessions.csv with one row per session, summary.json with the table and how it was made."""
    rows = [playback.row() for playbacks in played.values() for playback in playbacks]
    record_files.write(folder, {"sessions": rows}, {"lines": [as_record(line) for line in lines]}, facts)


def as_record(line: SummaryRow) -> dict[str, Any]:
    """The line as plain data."""
    record = dict(vars(line))
    for key in ("qoe", "paired"):
        record[key] = record[key]._asdict() if record[key] else None
    return record
