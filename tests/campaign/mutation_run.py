"""Thousands of trials in worker processes: who dies or hangs is noticed, its trial kept, and the rest goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign import guard

ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """What became of the trials of a kind."""

    kind: str
    wanted: int
    done: int = 0
    results: int = 0
    refusals: int = 0
    most_mib: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, outcome: dict[str, Any]) -> None:
        self.done += 1
        self.results += outcome["results"]
        self.refusals += outcome["refusals"]
        self.most_mib = max(self.most_mib, outcome["grown_mib"])
        self.problems += [f"{self.kind} trial {outcome['trial']}: {each}" for each in outcome["problems"]]


@dataclass
class _Worker:
    """Every `step`-th trial from `first`."""

    kind: str
    seed: int
    first: int
    stop: int
    step: int
    work: Path

    def __post_init__(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.log = self.work / "log"
        self._read = 0
        self._next = self.first
        self._start()

    def _start(self) -> None:
        self.begun: int | None = None
        self.begun_s, self.begun_cpu_s, self.hung = time.monotonic(), 0.0, False
        words = [self.kind, self.seed, self._next, self.stop, self.step, self.work, self.log]
        command = [sys.executable, "-m", "tests.campaign.worker", *map(str, words)]
        # What Python and numba compile is nobody's input: kept beside the trials, for all workers.
        compiled = {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(self.work.parent / "numba")}
        with (self.work / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=stderr, stderr=stderr, env=os.environ | compiled)

    def poll(self, tally: Tally) -> bool:
        """Take note of what happened; whether there is more to come."""
        ended = self.process.poll()
        self._take(tally)
        if ended is None:
            self._lose_patience()
            return True
        if ended == 0:
            return False
        if self.begun is None:
            tally.problems.append(f"{self.kind}: the worker could not start: {self._last_words()}")
            return False
        tally.done += 1
        tally.problems.append(f"{self.kind} trial {self.begun}: {self._death(ended)}")
        self._next = self.begun + self.step
        if self._next >= self.stop:
            return False
        self._start()
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def _take(self, tally: Tally) -> None:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        whole = text[self._read :].rpartition("\n")[0]
        self._read += len(whole) + bool(whole)
        for line in whole.splitlines():
            record = _parsed(line)
            if "begun" in record:
                self.begun, self.begun_s = record["begun"], time.monotonic()
                self.begun_cpu_s = self._cpu_s()
            elif "ended" in record:
                tally.add(record["ended"])

    def _lose_patience(self) -> None:
        wall_s = time.monotonic() - self.begun_s
        if self.begun is None or self.hung or not guard.is_hung(wall_s, self._cpu_s() - self.begun_cpu_s):
            return
        self.hung = True
        self.process.send_signal(signal.SIGABRT)

    def _cpu_s(self) -> float:
        try:
            return guard.cpu_seconds(self.process.pid)
        except (OSError, IndexError):
            return self.begun_cpu_s  # it has ended

    def _death(self, status: int) -> str:
        if self.hung:
            return f"hung for {guard.DEADLINE_S:g} s and more (stacks in {self.log})"
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"the process was {how}: {self._last_words()}"

    def _last_words(self) -> str:
        return (self.work / "stderr").read_text(errors="replace").strip()[-600:]


def run_kind(kind: str, seed: int, trials: range, work: Path, *, jobs: int, until_s: float) -> Tally:
    """All trials of a kind, or as many as can be done until `until_s` on the monotonic clock."""
    tally = Tally(kind, len(trials))
    jobs = max(1, min(jobs, len(trials)))
    workers = [
        _Worker(kind, seed, trials.start + index, trials.stop, jobs, work / f"{kind}-{index}") for index in range(jobs)
    ]
    busy = list(workers)
    try:
        while busy and time.monotonic() < until_s:
            busy = [worker for worker in busy if worker.poll(tally)]
            time.sleep(0.05)
    finally:
        for worker in workers:
            worker.end()
    return tally


def _parsed(line: str) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # a line of a stack
    return record
