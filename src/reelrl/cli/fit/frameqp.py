"""Search how libaom's frames should differ under a bitrate: evolution of a linear rule by what it gains over ours.

reel fit frameqp -o shape.json                       on clips of the training split
reel evaluate frameqp --controllers shape.json

A gain is in dB over `rate-model` at the bits spent, half by the mean of PSNRs, half by the PSNR of the mean error.
Every candidate codes every clip at every rate once: 64 candidates on 8 clips at 2 rates are 1,024 encodes.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.storage.files import refuse_overwriting

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="FILE", help="where the rule goes (.json)")
    add("--clips", nargs="+", metavar="CLIP", help="default: every clip of --split")
    add("--split", default="train", help="train (default), test or all")
    add("--frames", type=int, default=64, metavar="N", help="of each clip (default 64)")
    add("--qps", default="34,46", help="of constant quality, whose rates are met (default 34,46)")
    add("--generations", type=int, default=8, metavar="N", help="default 8")
    add("--pairs", type=int, default=4, metavar="N", help="candidates of a generation, each with its mirror image")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.cli.evaluate.minigop import chosen_clips
    from reelrl.encode.clip_choice import opened
    from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
    from reelrl.encode.frameqp.fit import Evolution, Lessons, evolve
    from reelrl.encode.frameqp.source.preparation import FramePreparation

    plan = Evolution(generations=args.generations, pairs=args.pairs, seed=args.seed)
    clips = chosen_clips(args)
    refuse_overwriting(args.output, *(file for clip in clips for file in clip.files))
    lessons = Lessons(
        [FramePreparation(opened(clip, args.frames)) for clip in clips], options.numbers("--qps", args.qps)
    )
    found = evolve(lessons.gain, plan, None if args.json else _show)
    facts = {
        "clips": sorted(clip.name for clip in clips),
        "gain_db": found.gain_db,
        "curve": list(found.curve),
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
    EvolvedShape(found.weights, facts).save(args.output)
    weights = dict(zip(INPUTS, found.weights, strict=True))
    if args.json:
        output.as_json({"weights": weights, **facts})
        return 0
    for name, weight in weights.items():
        output.line("weight", name, f"{weight:+.2f}")
    output.line("fitted", f"{len(lessons)} clips and rates", f"{found.gain_db:+.3f} dB over the rule, on these clips")
    output.next_command(f"reel evaluate frameqp --controllers {shlex.quote(args.output)}")
    return 0


def _show(generation: int, gain_db: float) -> None:
    output.line("best", f"generation {generation + 1}", f"{gain_db:+.3f} dB")
