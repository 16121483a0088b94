"""`reel encode` by parts: what several workers gain, and what memory it takes.

    python benchmarks/encode_parts.py workers [--file FILE] [--preset 8]     one worker against two, same bytes
    python benchmarks/encode_parts.py memory [--minutes 1 60]                peak of all processes together

Each encode is the command in a process of its own, with a cache of its own that starts empty. CPU is that of the
process and all it started. `workers` takes the best of interleaved repeats, one worker on one core (alone on two, a
worker's encoder and its reader would share them). What CPU, rate and quality are against a
plain encode: encode_at_size.py.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
from _command_cost import CommandCost, load, reel_encode

from reelrl.content.clip import concatenate
from reelrl.content.generated.clips import generated_clip
from reelrl.content.write.video import write_video

if TYPE_CHECKING:
    from collections.abc import Iterator

STYLES = ("street", "talk", "pan", "screen")
HOUR_SIZE, HOUR_FPS = (128, 72), 15  # an hour in some minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("workers", "memory"), default="workers")
    parser.add_argument("--file", help="of workers: a video of half a minute or more (default: one is made, 640x360)")
    parser.add_argument("--seconds", type=int, default=144, help="of the one that is made")
    parser.add_argument("--preset", type=int, default=8)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 60])
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        {"workers": workers, "memory": memory}[args.what](Path(name), args)


def workers(folder: Path, args: argparse.Namespace) -> None:
    source = args.file or str(_made(folder / "in.y4m", (640, 360), args.seconds))
    runs: dict[int, list[CommandCost]] = {1: [], 2: []}
    streams = set()
    for _ in range(args.repeats):
        for number, found in runs.items():
            output = folder / f"{number}.ivf"
            options = ("--preset", str(args.preset), "--workers", str(number))
            with _on_cores(number):
                found.append(reel_encode(folder, source, output, *options, kbps=400))
            streams.add(output.read_bytes())
            run = found[-1]
            print(
                f"{number} workers  {run.wall_s:6.1f} s  CPU {run.cpu_s:6.1f} s  {run.printed['parts']} parts  "
                f"rate {100 * run.printed['rate_error']:+.2f} %  {load()}",
                flush=True,
            )
    one, two = (min(run.wall_s for run in runs[number]) for number in (1, 2))
    print(f"two workers are {one / two:.2f} times as fast as one; {len(streams)} different files")


@contextmanager
def _on_cores(number: int) -> Iterator[None]:
    """What is started inside has so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:number]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def memory(folder: Path, args: argparse.Namespace) -> None:
    for minutes in args.minutes:
        source = _looped(folder / f"{minutes:g}.mkv", minutes)
        run = reel_encode(folder, source, folder / "out.ivf", "--preset", "13", "--workers", "2", kbps=60)
        print(
            f"{minutes:5g} min  {run.printed['parts']:4} parts  peak {run.peak_mib:6.0f} MiB  {run.wall_s:6.1f} s  "
            f"CPU {run.cpu_s:6.1f} s  rate {100 * run.printed['rate_error']:+.2f} %  {load()}",
            flush=True,
        )


def _made(path: Path, size: tuple[int, int], seconds: int) -> Path:
    """Shots of generated content, one after the other."""
    shots = [generated_clip(style, size=size, frames=90, seed=seed) for seed in range(9) for style in STYLES]
    write_video(path, concatenate(shots[: -(-seconds // 3)]))
    return path


def _looped(path: Path, minutes: float) -> Path:
    """Twenty shots again and again, as a small H.264 file, written as it is made."""
    shots = [generated_clip(style, size=HOUR_SIZE, frames=150, seed=seed) for seed in range(5) for style in STYLES]
    frames = list(concatenate(shots))
    with av.open(str(path), "w") as container:
        options = {"preset": "ultrafast", "crf": "35", "g": "60"}
        stream: Any = container.add_stream("libx264", rate=HOUR_FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = *HOUR_SIZE, "yuv420p"
        for number in range(round(minutes * 60 * HOUR_FPS)):
            loop, place = divmod(number, len(frames))
            # Finished parts are known by their content: no two may be the same.
            frames[place].y[:16, :16] = 16 + 2 * (loop % 100)
            picture = av.VideoFrame.from_ndarray(frames[place].data.reshape(-1, HOUR_SIZE[0]), format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, HOUR_FPS)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


if __name__ == "__main__":
    main()
