"""Faults that have tests of their own: disks that fill up, and players that are killed, stopped or lose their port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.campaign.mutation_run import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS: dict[str, tuple[str, list[str]]] = {
    "full-disk": (
        "full_disk or read_only_folder",
        [
            *(
                "tests/storage/test_files.py",
                "tests/runs/test_folder.py",
                "tests/runs/test_checkpoints.py",
                "tests/runs/test_tensorboard.py",
            ),
            *("tests/content/write/test_video.py", "tests/content/read/test_random_access.py"),
            *("tests/storage/test_cache.py", "tests/faults/test_see.py", "tests/faults/test_handshake.py"),
        ],
    ),
    "doom-players": (
        "killed_player or stuck_player or taken_port or port_that_is_lost or killed_trainer or after_a_loss",
        ["tests/faults/test_doom.py"],
    ),
}


def run_script(name: str, work: Path, seconds: float) -> tuple[int, list[str]]:
    """How many cases were tried, and those that failed."""
    chosen, files = SCRIPTS[name]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={work}",
        "-k",
        chosen,
        *files,
    ]
    environment = os.environ | {"REELRL_CACHE": str(work.with_name(f"{work.name}-cache"))}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=max(60.0, seconds), check=False
        )
    except subprocess.TimeoutExpired:
        return 0, [f"{name}: no end within {seconds:.0f} s"]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    failed = re.findall(r"^(?:FAILED|ERROR) (.*)$", done.stdout, re.MULTILINE)
    if done.returncode and not failed:
        failed = [f"pytest ended with {done.returncode}: {done.stdout[-300:]}"]
    return counts.get("passed", 0) + len(failed), [f"{name}: {each}" for each in failed]
