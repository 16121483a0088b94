"""Fit the net of a bitrate controller, on links of the training pool.

reel fit abr fugu -o fugu.safetensors          predictor of download times, for planning by expected QoE
reel fit abr comyco -o comyco.safetensors      student of an expert that knows the link
reel fit abr scalefree -o settled.safetensors  a trained policy (`--start`), settled where it was undecided
reel evaluate abr fugu.safetensors comyco.safetensors robustmpc

The training pool is REELRL_DATA's training traces, replayed and widened, and generated links; no test trace is opened.
Each takes some minutes on one core. The nets that ship as `fugu` and `comyco` are those of the defaults. `scalefree`
goes on from a policy of its kind, for one ladder in Pensieve's simulator and on links that hold: a quarter of an hour.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.files import check_output

if TYPE_CHECKING:
    import argparse

    from reelrl.stream.data.ladders import Ladder


DEFAULTS = {"fugu": (8, 10, 512), "comyco": (6, 20, 128), "scalefree": (130, 2, 2000)}
"""Rounds, epochs and players."""
SETTLING_RATE = 1e-4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("baseline", choices=tuple(DEFAULTS), help="whose net")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where it goes, as safetensors")
    parser.add_argument(
        "--start", default="scalefree-pensieve", metavar="POLICY", help="of scalefree (default scalefree-pensieve)"
    )
    parser.add_argument("--ladder", metavar="PATH", help="default: REELRL_DATA's envivio, else the built-in one")
    parser.add_argument("--links", type=int, default=2000, metavar="N", help="of the training pool (default 2000)")
    parser.add_argument("--rounds", type=int, metavar="N", help="videos for each player (default: 8, 6, 130)")
    parser.add_argument("--epochs", type=int, metavar="N", help="over all rows, or a round's (default: 10, 20, 2)")
    parser.add_argument("--players", type=int, metavar="N", help="of comyco and scalefree (default: 128, 2000)")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.stream.data.ladders import read_ladder
    from reelrl.stream.data.pools import data_folder

    for name, default in zip(("rounds", "epochs", "players"), DEFAULTS[args.baseline], strict=True):
        if getattr(args, name) is None:
            setattr(args, name, default)
    for name in ("links", "rounds", "players", "epochs"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}; give 1 or more")
    check_output(args.output, *([args.ladder] if args.ladder else []))
    ladder = read_ladder(args.ladder or data_folder("videos/envivio") or "nominal")
    facts = (_settle if args.baseline == "scalefree" else _fit)(args, ladder)
    figures = {key: value for key, value in facts.items() if isinstance(value, int | float)}
    if args.json:
        output.as_json({"file": str(args.output), **figures})
        return 0
    for key, value in figures.items():
        output.line("fitted", key.replace("_", " "), f"{value:g}")
    output.next_command(f"reel evaluate abr {args.output} robustmpc")
    return 0


def _fit(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    from reelrl.runs.progress import Progress
    from reelrl.stream.fit.download_times import fit_predictor
    from reelrl.stream.fit.imitation import fit_student

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
    net = replace(net, facts=net.facts | {"command": _command()})
    net.save(args.output)
    return net.facts


def _settle(args: argparse.Namespace, ladder: Ladder) -> dict[str, Any]:
    from reelrl.runs.progress import Progress
    from reelrl.stream.data.pools import training_pool
    from reelrl.stream.fit.branches import settle
    from reelrl.stream.playback import load_bitrate_controller
    from reelrl.stream.scalefree.controller import ScaleFree, save_scale_free

    start = load_bitrate_controller(args.start)
    if not isinstance(start, ScaleFree):
        raise ConfigError(f"--start {args.start} is no scale-free policy; give `scalefree`, or a file of one")
    with Progress("fit", args.rounds, unit="rounds") as progress:
        branches = settle(
            start.policy,
            training_pool(args.seed, args.links, outage_share=0.0),
            ladder.video(),
            rounds=args.rounds,
            players=args.players,
            epochs=args.epochs,
            rate=SETTLING_RATE,
            seed=args.seed,
            moved=lambda _branches: progress.update(),
        )
    facts = {"start": args.start, "branches": branches, "command": _command()}
    save_scale_free(start.policy, Path(args.output), facts)
    return facts


def _command() -> str:
    return shlex.join(["reel", *sys.argv[1:]])
