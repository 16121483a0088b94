"""monitor.csv as Stable-Baselines3's tools read it: a JSON line, then reward, length and seconds of each episode."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING

from reelrl.errors import RunError
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.regular_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.runs.folder import Run


class MonitorCsv:
    """The table of a run. It is written anew from the run's episodes, so that a resumed run has each of them once."""

    def __init__(self, path: Path, run: Run, env_id: str = "reelrl/SuperblockQP-v0") -> None:
        self.path = path
        start_s = datetime.fromisoformat(run.meta["created"]).timestamp()
        lines = ["#" + json.dumps({"t_start": start_s, "env_id": env_id}), "r,l,t"]
        lines += [_row(each["reward"], each["length"], each["time_s"]) for each in run.episodes()]
        write_atomic(path, "\n".join(lines) + "\n", error=RunError)

    def add(self, reward: float, length: int, time_s: float) -> None:
        """One episode more."""
        try:
            with os.fdopen(open_regular(self.path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
                file.write(_row(reward, length, time_s) + "\n")
        except OSError as error:
            raise RunError(explain_os_error(error, self.path, "append to")) from error


def _row(reward: float, length: int, time_s: float) -> str:
    return f"{round(reward, 6)},{length},{round(time_s, 6)}"
