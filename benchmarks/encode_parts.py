"""`reel encode` by parts: what several workers gain, what memory it takes, what CPU against a plain encode.

    python benchmarks/encode_parts.py workers [--file FILE] [--preset 8]     one worker against two, same bytes
    python benchmarks/encode_parts.py memory [--minutes 1 60]                peak of all processes together
    python benchmarks/encode_parts.py cost --files FILE ... [--frames 240]   CPU and rate error, against PyAV's VBR

Each encode is the command in a process of its own, with a cache of its own that starts empty. CPU is that of the
process and all it started. `workers` and `cost` take the best of interleaved repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np

from reelrl.content.clip import Clip, concatenate
from reelrl.content.generated.clips import generated_clip
from reelrl.content.quality import psnr_from_sse
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from reelrl.encode import normal_scheduling
from reelrl.storage.files import write_atomic

STYLES = ("street", "talk", "pan", "screen")


@dataclass(frozen=True)
class Measured:
    """One command: seconds on the clock, of CPU, the most memory of all its processes, and what it printed."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    printed: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("workers", "memory", "cost"))
    parser.add_argument("--file", help="a video of half a minute or more (default: one is made, 640x360)")
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--preset", type=int, default=8)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 60])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--presets", type=int, nargs="+", default=[8], help="of cost")
    parser.add_argument(
        "--qps", type=int, nargs="+", default=[32, 44], help="of cost: at the rates that crf takes there"
    )
    parser.add_argument("--one-piece", action="store_true", help="of cost: not in parts")
    parser.add_argument("--json", help="where cost writes its rows")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        {"workers": workers, "memory": memory, "cost": cost}[args.what](Path(name), args)


def workers(folder: Path, args: argparse.Namespace) -> None:
    source = args.file or str(_made(folder / "in.y4m", (640, 360), 36))
    runs: dict[int, list[Measured]] = {1: [], 2: []}
    streams = set()
    for _ in range(args.repeats):
        for number, found in runs.items():
            output = folder / f"{number}.ivf"
            found.append(_encode(folder, source, output, "--preset", str(args.preset), "--workers", str(number)))
            streams.add(output.read_bytes())
            print(f"{number} workers  {found[-1].wall_s:6.1f} s  CPU {found[-1].cpu_s:6.1f} s  {_load()}", flush=True)
    one, two = (min(run.wall_s for run in runs[number]) for number in (1, 2))
    print(f"two workers are {one / two:.2f} times as fast as one; {len(streams)} different files")


def memory(folder: Path, args: argparse.Namespace) -> None:
    for minutes in args.minutes:
        source = _looped(folder / f"{minutes:g}.mkv", (128, 72), minutes)
        found = _encode(folder, str(source), folder / "out.ivf", "--preset", "13", "--workers", "2", kbps=60)
        parts = found.printed["parts"]
        print(f"{minutes:5g} min  {parts:4} parts  peak {found.peak_mib:6.0f} MiB  {found.wall_s:6.1f} s", flush=True)


def cost(folder: Path, args: argparse.Namespace) -> None:
    rows = []
    for name in args.files:
        clip = open_clip(name)
        clip = clip.window(0, min(args.frames, clip.frame_count))
        # As a file that both read in the same way.
        source = folder / "in.y4m"
        write_video(source, clip)
        for preset in args.presets:
            for qp in args.qps:
                rows.append(_compared(folder, name, source, preset, qp, args.repeats, args.one_piece))
                print(_line(rows[-1]), flush=True)
                if args.json:
                    write_atomic(args.json, json.dumps(rows, indent=1))
    print(_summary(rows))


def _compared(
    folder: Path, name: str, source: Path, preset: int, qp: int, repeats: int, one_piece: bool
) -> dict[str, Any]:
    """Ours and PyAV's VBR at the rate that crf takes at a QP."""
    clip = Clip.open(source)
    kbps = _plain(folder, source, {"svtav1-params": f"rc=0:crf={qp}:lp=1"}, 0, preset).printed["kbps"]
    ours, theirs = [], []
    ways = () if one_piece else ("--workers", "1")
    for _ in range(repeats):
        ours.append(_encode(folder, str(source), folder / "ours.ivf", "--preset", str(preset), *ways, kbps=kbps))
        theirs.append(_plain(folder, source, {"svtav1-params": "rc=1:lp=1"}, kbps, preset))
    row: dict[str, Any] = {
        "clip": Path(name).name, "width": clip.width, "height": clip.height, "frames": clip.frame_count,
        "preset": preset, "crf": qp, "kbps": kbps, "parts": ours[0].printed["parts"],
        "passes": ours[0].printed["passes"], "load": os.getloadavg()[0],
    }  # fmt: skip
    for who, runs, file in (("ours", ours, folder / "ours.ivf"), ("vbr", theirs, Path(f"{source}.ivf"))):
        row[f"{who}_ms"] = 1000 * min(run.cpu_s for run in runs) / clip.frame_count
        row[f"{who}_error"] = runs[0].printed["kbps"] / kbps - 1
        row[f"{who}_psnr_y"] = _psnr_y(clip, Clip.open(file))
    row["cpu_ratio"] = row["ours_ms"] / row["vbr_ms"]
    return row


def _psnr_y(clip: Clip, coded: Clip) -> float:
    values = [
        psnr_from_sse(int(np.square(a.y.astype(np.int64) - b.y).sum()), clip.width * clip.height)
        for a, b in zip(clip, coded, strict=True)
    ]
    return sum(values) / len(values)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['clip'][:44]:44} {row['width']}x{row['height']} {row['frames']} frames  preset {row['preset']}  "
        f"{row['kbps']:7.0f} kbit/s  CPU {row['ours_ms']:6.1f} / {row['vbr_ms']:6.1f} ms = {row['cpu_ratio']:4.2f}  "
        f"rate {100 * row['ours_error']:+6.2f} / {100 * row['vbr_error']:+6.2f} %  PSNR-Y {row['ours_psnr_y']:.2f} / "
        f"{row['vbr_psnr_y']:.2f} dB  load {row['load']:.1f}"
    )


def _summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for size, preset in sorted({(row["height"], row["preset"]) for row in rows}):
        chosen = [row for row in rows if (row["height"], row["preset"]) == (size, preset)]
        mean = {
            name: sum(abs(row[name]) for row in chosen) / len(chosen)
            for name in ("ours_error", "vbr_error", "cpu_ratio")
        }
        lines.append(
            f"{size} lines, preset {preset}: {len(chosen)} encodes of {len({row['clip'] for row in chosen})} clips, "
            f"off by {100 * mean['ours_error']:.2f} % (VBR {100 * mean['vbr_error']:.2f} %), "
            f"CPU {mean['cpu_ratio']:.2f} times (most {max(row['cpu_ratio'] for row in chosen):.2f})"
        )
    return "\n".join(lines)


def _made(path: Path, size: tuple[int, int], seconds: int) -> Path:
    """Shots of generated content, one after the other."""
    shots = [generated_clip(style, size=size, frames=90, seed=seed) for seed in range(9) for style in STYLES]
    write_video(path, concatenate(shots[: -(-seconds // 3)]))
    return path


def _looped(path: Path, size: tuple[int, int], minutes: float) -> Path:
    """Twenty shots again and again, as a small H.264 file, written as it is made."""
    shots = [generated_clip(style, size=size, frames=150, seed=seed) for seed in range(5) for style in STYLES]
    frames = list(concatenate(shots))
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=30, options={"preset": "ultrafast", "crf": "35", "g": "60"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for number in range(round(minutes * 60 * 30)):
            loop, place = divmod(number, len(frames))
            # Finished parts are known by their content: no two may be the same.
            frames[place].y[:16, :16] = 16 + 2 * (loop % 100)
            picture = av.VideoFrame.from_ndarray(frames[place].data.reshape(-1, size[0]), format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, 30)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def _encode(folder: Path, source: str, output: Path, *options: str, kbps: float = 400) -> Measured:
    command = [sys.executable, "-m", "reelrl.cli.main", "encode", source, "-o", str(output), "--bitrate", str(kbps)]
    return _measured([*command, *options, "--json"], folder)


def _plain(folder: Path, source: Path, options: dict[str, str], kbps: float, preset: int) -> Measured:
    command = [sys.executable, __file__, "--one", str(source), json.dumps(options), str(kbps), str(preset)]
    return _measured(command, folder)


def plain_encode(source: str, options: str, kbps: str, preset: str) -> None:
    """The encode that people know: PyAV's libsvtav1, and nothing else of ours but the reading of the file."""
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


def _measured(command: list[str], folder: Path) -> Measured:
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
    return Measured(wall_s, cpu_s, peak[0], cast("dict[str, Any]", json.loads(printed)))


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


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        plain_encode(*sys.argv[2:])
    else:
        main()
