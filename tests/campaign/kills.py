"""Kill -9 inside a save of every kind of run, then resume: the bits of a run that was never killed."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from reelrl.errors import ReelError
from reelrl.runs.folder import RunFolder
from tests.campaign.mutation_run import ROOT
from tests.campaign.trainings import TRAININGS, restored_doom_differs
from tests.runs.outcome import outcome

if TYPE_CHECKING:
    from pathlib import Path

SAVE = 2  # inside the second: there is one before, and one comes after
_DEADLINE_S = 300.0


@dataclass
class Killed:
    """What became of the moments at which one kind of run was killed."""

    kind: str
    operations: int = 0
    tried: int = 0
    problems: list[str] = field(default_factory=list)


def kill_inside_saves(kind: str, seed: int, moments: int, work: Path, only: int | None = None) -> Killed:
    """Kill a training at some moments of a save, spread over all of them by chance, and resume each."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "data").mkdir(parents=True)
    found = Killed(kind)
    words = TRAININGS[kind](work / "data", work / "whole")
    count_file = work / "count"
    status, said = _run(work, [str(SAVE), "0", str(count_file), "train", *words], "tests.campaign.dying")
    if status or not count_file.exists():
        found.problems.append(f"kill {kind}: the undisturbed run ended with {status}: {said[-300:]}")
        return found
    found.operations = int(count_file.read_text().split()[0])
    chosen = _spread(found.operations, moments, Random(f"{seed}/kill/{kind}")) if only is None else [only]
    for moment in chosen:
        found.tried += 1
        problem = _kill_and_resume(kind, moment, work)
        if problem:
            found.problems.append(f"kill {kind} trial {moment}: {problem}")
    return found


def _spread(operations: int, moments: int, chance: Random) -> list[int]:
    moments = min(moments, operations)
    edges = [round(index * operations / moments) for index in range(moments + 1)]
    return [chance.randrange(low + 1, high + 1) for low, high in itertools.pairwise(edges)]


def _kill_and_resume(kind: str, moment: int, work: Path) -> str:
    root = work / f"killed-{moment}"
    words = TRAININGS[kind](work / "data", root)
    status, said = _run(work, [str(SAVE), str(moment), str(work / "unused"), "train", *words], "tests.campaign.dying")
    if status != -signal.SIGKILL:
        return f"it was not killed, but ended with {status}: {said[-300:]}"
    try:
        run = RunFolder(next(root.iterdir()))
        saved = run.checkpoints.latest()
        if saved is None:
            return "no checkpoint is whole"
        differ = restored_doom_differs(run.folder) if kind == "doom" else []
        if differ:
            return f"restored at step {saved.step}, these differ: {', '.join(differ[:5])}"
        status, said = _run(work, ["train", kind, "--resume", str(run.folder)], "reelrl.cli.main")
        if status:
            return f"resumed, it ended with {status}: {said[-300:]}"
        return "" if kind == "doom" else _difference(run.folder, next((work / "whole").iterdir()))
    except ReelError as error:
        return f"{type(error).__name__}: {error}"


def _difference(killed: Path, whole: Path) -> str:
    ours, theirs = outcome(RunFolder(killed)), outcome(RunFolder(whole))
    return ", ".join(f"{part} differ" for part in theirs if ours[part] != theirs[part])


def _run(work: Path, words: list[str], module: str) -> tuple[int, str]:
    environment = os.environ | {"REELRL_CACHE": str(work / "cache")}
    environment.pop("REELRL_DATA", None)
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        return 124, f"no end within {_DEADLINE_S:g} s: {said[-300:]}"
    return process.returncode, said
