"""`reel train ...` in a process that kills itself inside a save, at a moment that is counted and not timed.

python -m tests.campaign.dying SAVE MOMENT COUNT_FILE train abr ...

From the SAVE-th checkpoint on, until the next one begins, each file operation in the run's folder counts; before the
MOMENT-th the process is killed with SIGKILL. With MOMENT 0 it lives, and writes how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from reelrl.cli.main import main
from reelrl.runs.checkpoints import Checkpoints


class Death:
    """Comes at a counted file operation."""

    def __init__(self, save: int, moment: int) -> None:
        self.save, self.moment = save, moment
        self.saves = self.operations = 0
        self.folder = ""
        self._usual = Checkpoints.save
        sys.addaudithook(self._hear)

    def watched(self, checkpoints: Checkpoints, *arguments: Any, **named: Any) -> Path:
        self.saves += 1
        self.folder = str(checkpoints.folder.parent) if self.saves == self.save else ""
        return self._usual(checkpoints, *arguments, **named)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or not (event == "open" or event.startswith(("os.", "shutil."))):
            return
        paths = (os.fspath(each) for each in arguments if isinstance(each, str | os.PathLike))
        if any(isinstance(path, str) and self.folder in path for path in paths):
            self.operations += 1
            if self.operations == self.moment:
                os.kill(os.getpid(), signal.SIGKILL)


def run(save: str, moment: str, count_file: str, *words: str) -> int:
    death = Death(int(save), int(moment))
    Checkpoints.save = lambda self, *given, **named: death.watched(self, *given, **named)  # type: ignore[method-assign]
    status = main(list(words))
    Path(count_file).write_text(f"{death.operations} {death.saves}")
    return status


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
