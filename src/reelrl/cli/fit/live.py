"""Fit the predictor of a frame's bits that live coding decides by.

reel fit live -o live.safetensors                     to encodes of the development clips at QPs that wander
reel fit live -o mine.safetensors --clips my/*.mkv    to clips of yours
reel encode in.y4m -o out.mkv --bitrate 500 --live --policy live.safetensors

Prints what the net and the rule are off by on clips that were held out, in octaves of bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse

    from reelrl.encode.live.lessons import LiveLesson


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="FILE", help="where the net goes: .safetensors")
    add("--clips", nargs="+", metavar="CLIP", help="to learn from (default: the development clips)")
    add("--encodes", type=int, default=4, metavar="N", help="of each clip (default 4)")
    add("--epochs", type=int, default=25, metavar="N", help="over all frames (default 25)")
    add("--preset", type=int, default=10, help="the encoder's speed preset (default 10)")
    add("--densities", action="store_true", help="also fit and print the constants of the rule")
    options.add_workers(parser)
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.agents.spread_net import SpreadNetFit
    from reelrl.encode.live.fit import fit_density, fit_net
    from reelrl.encode.live.learned_bits import save_net

    if Path(args.output).suffix != ".safetensors":
        raise ConfigError(f"{args.output} does not end in .safetensors; nets are saved as such")
    if args.encodes < 1 or args.epochs < 1:
        raise ConfigError(f"--encodes {args.encodes}, --epochs {args.epochs}; both are 1 or more")
    check_output(args.output)
    lessons = _lessons(args)
    if args.densities:
        for kind, afresh in (("afresh", True), ("others", False)):
            density, rms = fit_density(lessons, afresh=afresh)
            output.line("rule", kind, f"{density}", f"off by {rms:.3f} octaves uncorrected")
    net, figures = fit_net(lessons, SpreadNetFit(epochs=args.epochs), args.seed)
    facts = {"clips": sorted({lesson.clip for lesson in lessons}), "preset": args.preset, "seed": args.seed, **figures}
    save_net(Path(args.output), net, facts)
    output.line("fitted", args.output, f"{figures['frames']:.0f} frames")
    for who in ("net", "rule"):
        output.line(
            who, "held out", f"rms {figures[f'{who}_rms']:.3f} octaves", f"95 % below {figures[f'{who}_p95']:.3f}"
        )
    if args.json:
        output.as_json({"file": args.output, **facts})
    output.next_command(f"reel evaluate live --only rule {args.output}")
    return 0


def _lessons(args: argparse.Namespace) -> list[LiveLesson]:
    from reelrl.encode.live.clips import DEVELOPMENT
    from reelrl.parallel import executor
    from reelrl.runs.progress import Progress

    clips = args.clips or [name for names in DEVELOPMENT.values() for name in names]
    if len(clips) < 2:
        raise ConfigError(f"{len(clips)} clip; give two or more, so that one can be held out")
    tasks = [(name, args.encodes, args.preset, args.seed) for name in clips]
    lessons: list[LiveLesson] = []
    with Progress("encode", len(tasks), unit="clips") as progress, executor(args.jobs) as work:
        for batch in work.map(_task, tasks, name=lambda task: task[0]):
            lessons += batch
            progress.update()
    return lessons


def _task(task: tuple[str, int, int, int]) -> list[LiveLesson]:
    from reelrl.encode.live.lessons import lessons_of

    return lessons_of(*task)
