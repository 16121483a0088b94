"""Encode a clip several ways and leave one page to look at.

reel demo                                  a street that the package draws itself, about half a minute
reel demo --clip film.mkv --frames 90      the same for a clip of yours

Both encoders code the clip at several QPs. Then each gets a map of QP offsets that favours the superblocks where
something moves, and a base QP that brings it back to the size without a map, so that the two can be compared.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.runs.progress import Progress
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content import Clip
    from reelrl.encode.demo.measure import Motion, Trial

CLIP, FRAMES = "generated:street", 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument("-o", "--out", metavar="FOLDER", default="demo", help="where the page goes (default: demo)")
    parser.add_argument("--clip", default=CLIP, help=f"a name from `reel clips`, a recipe or a file (default: {CLIP})")
    parser.add_argument("--frames", type=int, default=FRAMES, metavar="N", help=f"frames at most (default: {FRAMES})")


def run(args: argparse.Namespace) -> int:
    folder = writable_folder(args.out)
    clip = _open(args.clip, args.frames)
    if not args.json:
        output.line("clip", clip.name, f"{clip.width}x{clip.height}", f"{clip.frame_count} frames", f"{clip.fps} fps")
    motion, trials = _measure(clip)
    _save(folder, clip, motion, trials, _command(args))
    if args.json:
        page = str(folder / "index.html")
        output.as_json({"page": page, "trials": [trial.record(motion.moving) for trial in trials]})
    else:
        _report(folder, motion, trials)
    return 0


def _open(name: str, frames: int) -> Clip:
    from reelrl.content import open_clip

    clip = open_clip(name)
    return clip.window(0, min(frames, clip.frame_count)).load()


def _measure(clip: Clip) -> tuple[Motion, list[Trial]]:
    from reelrl.encode.demo import measure as demo

    motion = demo.find_motion(clip)
    total = len(demo.NAMES) * demo.ENCODES * clip.frame_count
    with Progress("encode", total, unit="frames") as progress:
        trials = [
            demo.measure(backend, clip, motion, lambda name, frames: progress.update(frames, encoder=name))
            for backend in demo.NAMES
        ]
    return motion, trials


def _save(folder: Path, clip: Clip, motion: Motion, trials: Sequence[Trial], command: str) -> None:
    """The videos first, then the page that shows them: whoever finds a page finds a whole one."""
    from reelrl.encode.demo.page import demo_page

    document = demo_page(clip, motion, trials, command)
    for trial in trials:
        trial.plain.coded.save(own_path(folder / f"{trial.backend}-plain.mp4"))
        trial.mapped.coded.save(own_path(folder / f"{trial.backend}-map.mp4"))
    write_atomic(own_path(folder / "index.html"), document)


def _report(folder: Path, motion: Motion, trials: Sequence[Trial]) -> None:
    for trial in trials:
        ends = (f"{coded.kbps:.0f} kbps {coded.psnr_y:.1f} dB" for coded in (trial.curve[-1], trial.curve[0]))
        output.line("curve", f"{trial.name} {trial.version}", " to ".join(ends))
    for trial in trials:
        change = trial.change(motion.moving)
        output.line(
            "map",
            trial.name,
            f"moving {change.moving:+.2f} dB",
            f"elsewhere {change.elsewhere:+.2f} dB",
            f"bytes {trial.growth(trial.mapped):+.1f} %",
            f"zero map {trial.growth(trial.zero):+.1f} %",
        )
    output.line("page", folder / "index.html", "open it in a browser")
    output.next_command("reel clips")


def _command(args: argparse.Namespace) -> str:
    """What to type for the same page."""
    words = ["reel", "demo"]
    words += ["--clip", args.clip] if args.clip != CLIP else []
    words += ["--frames", str(args.frames)] if args.frames != FRAMES else []
    words += ["--out", args.out] if args.out != "demo" else []
    return shlex.join(words)
