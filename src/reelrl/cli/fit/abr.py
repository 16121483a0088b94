"""Fit the net of a learned baseline of bitrate control, on links of the training pool.

reel fit abr fugu -o fugu.safetensors          predictor of download times, for planning by expected QoE
reel fit abr comyco -o comyco.safetensors      student of an expert that knows the link
reel evaluate abr fugu.safetensors comyco.safetensors robustmpc

The training pool is REELRL_DATA's training traces, replayed and widened, and generated links; no test trace is opened.
Each takes some minutes on one core. The nets that ship as `fugu` and `comyco` are those of the defaults.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse


DEFAULTS = {"fugu": (8, 10), "comyco": (6, 20)}
"""Rounds and epochs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("baseline", choices=tuple(DEFAULTS), help="whose net")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where it goes, as safetensors")
    parser.add_argument("--ladder", metavar="PATH", help="default: REELRL_DATA's envivio, else the built-in one")
    parser.add_argument("--links", type=int, default=2000, metavar="N", help="of the training pool (default 2000)")
    parser.add_argument("--rounds", type=int, metavar="N", help="videos for each player (default: fugu 8, comyco 6)")
    parser.add_argument("--players", type=int, default=128, metavar="N", help="of comyco (default 128; fugu has 512)")
    parser.add_argument("--epochs", type=int, metavar="N", help="over all rows (default: fugu 10, comyco 20)")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.runs.progress import Progress
    from reelrl.stream.data.ladders import read_ladder
    from reelrl.stream.data.pools import data_folder
    from reelrl.stream.fit.download_times import fit_predictor
    from reelrl.stream.fit.imitation import fit_student

    rounds, epochs = DEFAULTS[args.baseline]
    args.rounds = rounds if args.rounds is None else args.rounds
    args.epochs = epochs if args.epochs is None else args.epochs
    for name in ("links", "rounds", "players", "epochs"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}; give 1 or more")
    check_output(args.output, *([args.ladder] if args.ladder else []))
    ladder = read_ladder(args.ladder or data_folder("videos/envivio") or "nominal")
    if args.baseline == "fugu":
        with Progress("fit", 2, unit="parts") as progress:
            net = fit_predictor(
                ladder,
                links=args.links,
                videos=args.rounds,
                epochs=args.epochs,
                seed=args.seed,
                moved=lambda _part: progress.update(),
            )
    else:
        answers = args.rounds * args.players * (ladder.video().chunks - 1)
        with Progress("fit", answers, unit="answers") as progress:
            net = fit_student(
                ladder,
                links=args.links,
                players=args.players,
                rounds=args.rounds,
                epochs=args.epochs,
                seed=args.seed,
                moved=lambda count, figures: progress.update(count, **figures),
            )
    net = replace(net, facts=net.facts | {"command": shlex.join(["reel", *sys.argv[1:]])})
    net.save(args.output)
    figures = {key: value for key, value in net.facts.items() if isinstance(value, int | float)}
    if args.json:
        output.as_json({"file": str(args.output), **figures})
        return 0
    for key, value in figures.items():
        output.line("fitted", key.replace("_", " "), f"{value:g}")
    output.next_command(f"reel evaluate abr {args.output} robustmpc")
    return 0
