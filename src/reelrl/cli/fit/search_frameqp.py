"""Search what the quantisers of frames can win over the rule on each clip at most, by evolution of frames' offsets.

reel search frameqp --out searched.json --clips carphone_qcif 'generated:street?size=176x144'
reel fit frameqp --imitate searched.json -o imitated.json

A gain is in dB over `rate-model` at the bits spent. Every candidate is an encode of the clip: 40 generations of 12 are
480 encodes for each clip and rate.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.fit import frame_lessons
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    import argparse

    from reelrl.content.clip import Clip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", required=True, metavar="FILE", help="where the results go (.json)")
    frame_lessons.add_arguments(parser, seconds="for each clip and rate")
    add("--generations", type=int, default=40, metavar="N", help="default 40")
    add("--candidates", type=int, default=12, metavar="N", help="of a generation (default 12)")
    options.add_workers(parser)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.evolution import Evolution
    from reelrl.encode.frameqp.fit import FrameLesson
    from reelrl.encode.frameqp.search import SearchTask, search
    from reelrl.parallel import executor

    plan = Evolution(generations=args.generations, candidates=args.candidates, seed=args.seed)
    clips = frame_lessons.clips_for(args, args.out)
    lessons = [FrameLesson(clip, args.frames, qp) for clip in clips for qp in options.numbers("--qps", args.qps)]
    rows = []
    with executor(args.jobs) as work:
        tasks = [SearchTask(lesson, plan, args.seconds) for lesson in lessons]
        for _, found in work.as_completed(search, tasks, name=lambda task: task.lesson.clip.name):
            lesson, gain = found.lesson, found.gain
            rows.append(
                {"clip": _named(lesson.clip), "frames": lesson.frames, "qp": lesson.qp, **gain._asdict()}
                | {"encodes": found.encodes, "offsets": found.offsets, "curve": found.curve}
            )
            command = shlex.join(["reel", *sys.argv[1:]])
            write_atomic(args.out, json.dumps({"command": command, "found": rows}, indent=1) + "\n")
            place = f"{lesson.clip.name} at QP {lesson.qp}"
            output.line("found", place, f"{gain.psnr_y:+.3f} and {gain.psnr_y_of_mean:+.3f} dB over the rule")
    if args.json:
        output.as_json({"found": rows})
        return 0
    output.next_command(f"reel fit frameqp --imitate {shlex.quote(args.out)} -o imitated.json")
    return 0


def _named(clip: Clip) -> str:
    """As `open_clip` finds it again."""
    from reelrl.content.catalogue import catalogue

    known = clip.name in {entry.clip.name for entry in catalogue()}
    return clip.name if known or not clip.files else str(clip.files[0])
