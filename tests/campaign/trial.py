"""One trial: a small real input is broken by chance and given to the entry points. A result or a ReelError is right."""

from __future__ import annotations

import io
import shutil
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from reelrl.errors import ReelError
from tests.campaign import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Feed = tuple[str, Callable[[], object]]

KINDS = {"videos": 1000, "traces": 1000, "settings": 500, "checkpoints": 500, "handshakes": 200, "manifests": 200}
"""Trials of a full campaign, by the module that makes them."""
LONGEST_TEXT = 20_000  # of an error: it may show what was given, and no more


class Kind(Protocol):
    """A module of this folder."""

    def make_sources(self, folder: Path) -> None:
        """Small whole inputs, the same each time."""
        ...

    def break_one(self, sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
        """Write a broken input into `folder`; then gives what to call, each by name."""
        ...


@dataclass
class Outcome:
    """What became of a trial."""

    trial: int
    problems: list[str] = field(default_factory=list)
    results: int = 0
    refusals: int = 0
    grown_mib: float = 0.0


def kind_named(name: str) -> Kind:
    kind: Any = import_module(f"tests.campaign.{name}")
    return kind  # type: ignore[no-any-return]


def run_trial(name: str, seed: int, trial: int, work: Path, writes: guard.WriteGuard) -> Outcome:
    """Do one trial in `work`/trial-N; the folder stays where something is wrong."""
    outcome = Outcome(trial)
    folder, outside, sources = work / f"trial-{trial}", work / "outside", work / "sources" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    before = guard.snapshot(outside) + guard.snapshot(sources)
    chance = Random(f"{seed}/{name}/{trial}")
    resident = guard.forget_peak()
    writes.start([folder, work / "tmp", work / "cache", work.parent / "numba"])
    for label, feed in kind_named(name).break_one(sources, folder, outside, chance):
        _feed(label, feed, outcome)
    outcome.problems += [f"wrote outside its folder: {each}" for each in writes.stop()[:5]]
    outcome.grown_mib = (guard.peak() - resident) / 2**20
    if outcome.grown_mib > guard.MOST_MIB:
        outcome.problems.append(f"took {outcome.grown_mib:.0f} MiB of memory")
    if guard.snapshot(outside) + guard.snapshot(sources) != before:
        outcome.problems.append("changed its source, or a file outside its folder")
    if not outcome.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _feed(label: str, feed: Callable[[], object], outcome: Outcome) -> None:
    # A terminal or file takes UTF-8 and nothing else; StringIO would take lone surrogates too.
    said = io.TextIOWrapper(io.BytesIO(), "utf-8")
    try:
        with redirect_stdout(said), redirect_stderr(io.StringIO()):
            feed()
        outcome.results += 1
    except ReelError as error:
        outcome.refusals += 1
        if len(str(error)) > LONGEST_TEXT:
            outcome.problems.append(f"{label}: an error text of {len(str(error))} characters: {str(error)[:200]}")
    except SystemExit as stop:
        outcome.problems.append(f"{label}: SystemExit({stop.code})")
    except BaseException as error:  # noqa: BLE001  whatever it is, it is what we look for
        where = traceback.extract_tb(sys.exc_info()[2])
        ours = [frame for frame in where if "/reelrl/" in frame.filename] or list(where)
        place = f"{ours[-1].filename.rpartition('/reelrl/')[2]}:{ours[-1].lineno}"
        outcome.problems.append(f"{label}: {type(error).__name__} at {place}: {str(error)[:300]}")


def command(*words: object) -> Feed:
    """A `reel` command, which answers with a status."""

    def call() -> object:
        from reelrl.cli.main import main

        status = main([str(word) for word in words])
        if status not in (0, 1, 2):
            raise RuntimeError(f"exit status {status}")
        return status

    return f"reel {' '.join(str(word) for word in words[:3])}", call
