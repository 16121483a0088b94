"""Mixed work for an hour: whether memory, threads, files, children and shared memory stay flat.

    python -m tests.campaign.soak --minutes 60

A round does each kind of work once, side by side, and then lets go of everything; what is held is sampled between
rounds, when it should be as little as after the round before.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.campaign.footprint import Sample, sample, verdicts
from tests.campaign.soak_work import WORK, Settled

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", nargs="+", choices=list(WORK), help="these kinds of work alone")
    parser.add_argument("--samples", type=Path, help="write them there, one JSON object per line")
    args = parser.parse_args()
    chosen = {name: WORK[name] for name in args.only or WORK}
    print(f"soak   {args.minutes:g} minutes of {', '.join(chosen)}", flush=True)
    started_s = told_s = time.monotonic()
    samples: list[Sample] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Settled(Path(folder)) as settled:
        while time.monotonic() - started_s < 60 * args.minutes or len(samples) < 8:
            problems += _round(settled, chosen)
            samples.append(sample(time.monotonic() - started_s))
            if args.samples:
                args.samples.write_text("".join(json.dumps(each._asdict()) + "\n" for each in samples))
            if time.monotonic() - told_s > _EVERY_S:
                told_s = time.monotonic()
                print(f"round  {len(samples):>4}   {samples[-1].in_words()}", flush=True)
            if len(problems) > 20:
                break
    lines, growing = verdicts(samples)
    print("\n".join(lines))
    for problem in problems[:20]:
        print(f"BROKEN {problem}")
    flat = not growing and not problems
    print(
        f"soak   {'flat' if flat else 'not flat' if growing else 'work failed'}   {len(samples)} rounds   "
        f"{(time.monotonic() - started_s) / 60:.1f} min"
    )
    return 0 if flat else 1


def _round(settled: Settled, work: dict[str, Callable[[Settled], object]]) -> list[str]:
    """All kinds of work at once; those that failed, in words."""
    problems: list[str] = []

    def do(name: str, act: Callable[[Settled], object]) -> None:
        try:
            act(settled)
        except Exception:  # noqa: BLE001  whatever it is, it is told and counted
            problems.append(f"{name}: {traceback.format_exc(limit=-3)}")

    threads = [threading.Thread(target=do, args=each, name=each[0]) for each in work.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


if __name__ == "__main__":
    sys.exit(main())
