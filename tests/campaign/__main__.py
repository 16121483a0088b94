"""Run the campaign, or one part or trial of it again; exit status 1 when a promise was broken."""

from __future__ import annotations

import argparse
import math
import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.campaign import mutation_run
from tests.campaign.scripted import SCRIPTS, run_script
from tests.campaign.trial import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = tuple[str, list[str]]

FULL_MINUTES = 60.0
MOMENTS = 4  # at which a save of each kind of run is killed, in a full campaign
KILLS = [f"kill-{kind}" for kind in ("superblock", "minigop", "abr", "autoencoder", "frame-reader", "location", "doom")]
PARTS = [*KINDS, "viewers", *SCRIPTS, *KILLS]


class Campaign:
    """One seed, one deadline."""

    def __init__(self, seed: int, minutes: float, work: Path, jobs: int, trial: int | None) -> None:
        self.seed, self.work, self.jobs, self.trial = seed, work, jobs, trial
        self.started_s = time.monotonic()
        self.until_s = self.started_s + 60 * minutes
        self.share = min(1.0, minutes / FULL_MINUTES)

    @property
    def seconds_left(self) -> float:
        return self.until_s - time.monotonic()

    def run(self, part: str) -> Found:
        """What was tried, in words, and what was broken."""
        if self.seconds_left <= 0:
            return "not reached: the time is up", []
        parts: dict[str, Callable[[str], Found]] = {"viewers": self._viewers}
        parts |= (
            dict.fromkeys(KINDS, self._mutations)
            | dict.fromkeys(SCRIPTS, self._script)
            | dict.fromkeys(KILLS, self._kill)
        )
        return parts[part](part)

    def _mutations(self, part: str) -> Found:
        trials = range(math.ceil(KINDS[part] * self.share))
        if self.trial is not None:
            trials = range(self.trial, self.trial + 1)
        tally = mutation_run.run_kind(part, self.seed, trials, self.work, jobs=self.jobs, until_s=self.until_s)
        words = f"{tally.done} of {tally.wanted} trials, {tally.results} results, {tally.refusals} refusals"
        return f"{words}, at most {max(0.0, tally.most_mib):.0f} MiB more", tally.problems

    def _viewers(self, part: str) -> Found:
        from tests.campaign.viewers import IDLE, SLOW, crowd

        figures, problems = crowd()
        return f"{SLOW} slow and {IDLE} idle: {figures}", [f"{part}: {each}" for each in problems]

    def _script(self, part: str) -> Found:
        tried, problems = run_script(part, self.work / part, self.seconds_left)
        return f"{tried} cases", problems

    def _kill(self, part: str) -> Found:
        from tests.campaign.kills import kill_inside_saves

        moments = max(1, round(MOMENTS * self.share))
        found = kill_inside_saves(part.removeprefix("kill-"), self.seed, moments, self.work / part, self.trial)
        return f"{found.tried} of {found.operations} moments of a save", found.problems


def main() -> int:
    args = _arguments()
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    work = args.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(seed, args.minutes, work, args.jobs, args.trial)
    print(f"faults seed {seed}   {args.minutes:g} minutes   {work}", flush=True)
    problems: list[str] = []
    for part in args.only or _in_order(seed, args.minutes):
        started_s = time.monotonic()
        words, broken = campaign.run(part)
        print(f"{part:<17} {len(broken):>3} broken   {words}   {time.monotonic() - started_s:.0f} s", flush=True)
        problems += broken
        for problem in broken:
            trial = problem.partition(" trial ")[2].partition(":")[0]
            print(
                f"  BROKEN {problem}\n         make faults SEED={seed} ONLY={part}{f' TRIAL={trial}' * bool(trial)}",
                flush=True,
            )
        if not broken:
            for folder in work.glob(f"{part}*"):
                shutil.rmtree(folder, ignore_errors=True)
    verdict = f"broken: {len(problems)}" if problems else "all promises held"
    print(f"faults {verdict}   seed {seed}   {(time.monotonic() - campaign.started_s) / 60:.1f} min")
    return 1 if problems else 0


def _in_order(seed: int, minutes: float) -> list[str]:
    """All parts; a short campaign comes to other kills with each seed."""
    kills = list(KILLS)
    if minutes < FULL_MINUTES:
        Random(seed).shuffle(kills)
    return [*(part for part in PARTS if part not in KILLS), *kills]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=FULL_MINUTES, help="time for all of it; less means fewer trials"
    )
    parser.add_argument("--seed", type=int, help="of all chance; printed, so that a run can be repeated")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts alone")
    parser.add_argument("--trial", type=int, help="this trial alone, or this moment of a save")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument(
        "--work", type=Path, default=Path("faults"), help="folder for inputs; those that broke something stay"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
