"""A process that does trials one after the other; its parent reads the log and sees it die.

python -m tests.campaign.worker KIND SEED FIRST STOP STEP WORK LOG
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path

from tests.campaign import guard
from tests.campaign.trial import kind_named, run_trial

ADDRESS_SPACE = 24 << 30  # a last wall behind the limit on what is resident


def main(kind: str, seed: str, first: str, stop: str, step: str, work: str, log_name: str) -> None:
    folder = Path(work)
    for name in ("outside", "tmp", "cache"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "outside" / "victim").write_text("nobody may change this")
    sources = folder / "sources" / kind
    broken = kind_named(kind)  # imported before the clock of the first trial runs
    if not sources.exists():
        sources.mkdir(parents=True)
        broken.make_sources(sources)
    os.environ["REELRL_CACHE"], os.environ["TMPDIR"] = str(folder / "cache"), str(folder / "tmp")
    os.environ.pop("REELRL_DATA", None)
    tempfile.tempdir = None
    os.chdir(folder / "tmp")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    writes = guard.WriteGuard()
    with Path(log_name).open("a") as log:
        faulthandler.enable(log)  # a parent that loses patience sends SIGABRT, to see where this process is
        for trial in range(int(first), int(stop), int(step)):
            print(json.dumps({"begun": trial}), file=log, flush=True)
            outcome = run_trial(kind, int(seed), trial, folder, writes)
            print(json.dumps({"ended": asdict(outcome)}), file=log, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
