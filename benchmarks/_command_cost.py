"""What a command takes: seconds, CPU and memory of its process and all that it started; and a plain encode beside it.

`python benchmarks/_command_cost.py SOURCE OPTIONS KBPS PRESET` is that encode: PyAV's libsvtav1, the options as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import av

from reelrl.content.clip import Clip
from reelrl.encode import normal_scheduling


@dataclass(frozen=True)
class CommandCost:
    """One command: seconds on the clock, of CPU, the most memory of all its processes, and what it printed."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    printed: dict[str, Any]


def reel_encode(folder: Path, source: str | Path, output: Path, *options: str, kbps: float) -> CommandCost:
    command = [sys.executable, "-m", "reelrl.cli.main", "encode", str(source), "-o", str(output)]
    return measured([*command, "--bitrate", str(kbps), *options, "--json"], folder)


def plain_encode(folder: Path, source: Path, options: dict[str, str], kbps: float, preset: int) -> CommandCost:
    """PyAV's libsvtav1; the stream is `SOURCE.ivf`. A rate of 0 leaves it to the options."""
    return measured([sys.executable, __file__, str(source), json.dumps(options), str(kbps), str(preset)], folder)


def measured(command: list[str], folder: Path) -> CommandCost:
    """Run a command that prints JSON, with a cache of its own that starts empty."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        before, started = os.times(), time.monotonic()
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "REELRL_CACHE": cache}
        )
        peak, done = [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                peak[0] = max(peak[0], _tree_mib(program.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        printed = program.communicate()[0]
        wall_s, after = time.monotonic() - started, os.times()
        done.set()
        watcher.join()
    if program.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {program.returncode}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return CommandCost(wall_s, cpu_s, peak[0], cast("dict[str, Any]", json.loads(printed)))


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _tree_mib(root: int) -> float:
    """Memory of a process and all below it; what they share counts once."""
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        with suppress(OSError):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
    return total / 1024


def _encode_plainly(source: str, options: str, kbps: str, preset: str) -> None:
    """The encode that people know, and nothing of ours but the reading of the file."""
    clip = Clip.open(source)
    total = 0
    with normal_scheduling(), av.open(f"{source}.ivf", "w") as container:
        stream: Any = container.add_stream(
            "libsvtav1", rate=clip.fps, options={"preset": preset, **json.loads(options)}
        )
        stream.width, stream.height, stream.pix_fmt = clip.width, clip.height, "yuv420p"
        stream.gop_size = 161
        if float(kbps):
            stream.bit_rate = round(1000 * float(kbps))
        for frame in clip:
            picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, frame.width), format="yuv420p")
            for packet in stream.encode(picture):
                total += packet.size
                container.mux(packet)
        for packet in stream.encode(None):
            total += packet.size
            container.mux(packet)
    print(json.dumps({"kbps": total * 8 / clip.duration_s / 1000}))


if __name__ == "__main__":
    _encode_plainly(*sys.argv[1:])
