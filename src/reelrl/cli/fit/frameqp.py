"""Search how libaom's frames should differ under a bitrate: evolution of a linear rule by what it gains over ours.

reel fit frameqp -o shape.json                               on clips of the training split
reel fit frameqp --imitate searched.json -o imitated.json    what `reel search frameqp` found, as a rule
reel evaluate frameqp --controllers shape.json

What counts is the bits saved over `rate-model` at equal quality: by the mean of PSNRs or by the PSNR of the mean error,
whichever saves less. Every candidate codes every clip at every rate once: 96 candidates on 8 clips at 2 rates are 1,536
encodes.
Ctrl+C ends after the generation under way and saves the best rule so far.
"""

from __future__ import annotations

import shlex
import sys
import threading
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.cli.fit import frame_lessons
from reelrl.errors import ConfigError
from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse

    import numpy as np
    from numpy.typing import NDArray

    from reelrl.encode.frameqp.fit import FrameLesson
    from reelrl.parallel import Executor

_SHARES = (1.0, 0.5, 0.25)  # of what imitation gives: the best on its clips is taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="FILE", help="where the rule goes (.json)")
    add("--imitate", metavar="FILE", help="results of `reel search frameqp`: no evolution, the nearest linear rule")
    frame_lessons.add_arguments(parser, seconds="begin no generation later")
    add("--generations", type=int, default=12, metavar="N", help="default 12")
    add("--candidates", type=int, default=8, metavar="N", help="of a generation (default 8)")
    options.add_workers(parser)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.encode.frameqp.controllers.evolved import INPUTS, EvolvedShape
    from reelrl.parallel import executor
    from reelrl.runs.interrupts import Interrupted

    if not args.output.endswith(".json"):
        raise ConfigError(f"{args.output} does not end in .json; rules are saved as such, and found by it")
    check_output(args.output)
    stopped = threading.Event()
    with executor(args.jobs) as work:
        lessons, weights, facts = _imitated(args, work) if args.imitate else _evolved(args, work, stopped)
    facts |= {
        "clips": sorted({lesson.clip.name for lesson in lessons}),
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
    rule = EvolvedShape(weights.tolist(), facts)
    rule.save(args.output)
    named = dict(zip(INPUTS, rule.weights.tolist(), strict=True))
    if args.json:
        output.as_json({"weights": named, **facts})
    for name, weight in named.items():
        output.line("weight", name, f"{weight:+.2f}")
    saved = f"{facts['saving']:+.2f} % of the bits over the rule"
    output.line("fitted", f"{len(lessons)} clips and rates", saved)
    output.next_command(f"reel evaluate frameqp --controllers {shlex.quote(args.output)}")
    if stopped.is_set():
        raise Interrupted(f"{len(facts['curve'])} generations")
    return 0


def _evolved(
    args: argparse.Namespace, work: Executor, stopped: threading.Event
) -> tuple[list[FrameLesson], NDArray[np.float64], dict[str, Any]]:
    import time

    import numpy as np

    from reelrl.encode.evolution import Evolution, evolve
    from reelrl.encode.frameqp.controllers.evolved import INPUTS
    from reelrl.encode.frameqp.fit import FrameLesson, mean_gains
    from reelrl.runs.interrupts import first_interrupt_asks

    plan = Evolution(generations=args.generations, candidates=args.candidates, seed=args.seed)
    clips = frame_lessons.clips_for(args, args.output)
    lessons = [FrameLesson(clip, args.frames, qp) for clip in clips for qp in options.numbers("--qps", args.qps)]
    until = time.monotonic() + args.seconds

    def show(generation: int, saving: float) -> bool:
        output.line("best", f"generation {generation + 1}", f"{saving:+.2f} % of the bits")
        return not stopped.is_set() and time.monotonic() < until

    with first_interrupt_asks(stopped.set):
        found = evolve(lambda candidates: mean_gains(candidates, lessons, work), len(INPUTS), plan, show)
    return lessons, np.array(found.best), {"saving": found.gain, "curve": list(found.curve)}


def _imitated(
    args: argparse.Namespace, work: Executor
) -> tuple[list[FrameLesson], NDArray[np.float64], dict[str, Any]]:
    from reelrl.encode.frameqp.fit import mean_gains
    from reelrl.encode.frameqp.search import imitated, load_found

    found = load_found(args.imitate)
    lessons = [each.lesson for each in found]
    check_output(args.output, args.imitate, *(file for lesson in lessons for file in lesson.clip.files))
    whole = imitated(found)
    tried = [share * whole for share in _SHARES]
    gains = mean_gains(tried, lessons, work)
    best = max(range(len(tried)), key=gains.__getitem__)
    shares = {str(share): gain for share, gain in zip(_SHARES, gains, strict=True)}
    return lessons, tried[best], {"saving": gains[best], "shares": shares}
