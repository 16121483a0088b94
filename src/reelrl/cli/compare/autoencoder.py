"""Compare optimisers of the streaming autoencoder on the same frames, with guesses that cost no learning beside them.

    reel compare autoencoder --contestants default,config:obgd,adam,rmsprop --games Breakout,Assault --seeds 3

A contestant is "default", an optimiser by name, or "config:NAME"; "+key=value" changes a setting of one, as in
"adam+optimiser.lr=0.003". All learners of a game share its frames; on a GPU they learn side by side. Results are
written as they come, and learners saved beside them (FILE.state): the same command goes on where it was stopped.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.runs.interrupts import Interrupted

if TYPE_CHECKING:
    import argparse

USUAL = "default,config:obgd,adaptive-obgd,intentional,adam,rmsprop,sgd,muon"
GAMES = "Breakout,Assault,SpaceInvaders,Pacman,Asteroids"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--contestants", default=USUAL, metavar="A,B", help=f"who learns (default {USUAL})")
    parser.add_argument("--games", default=GAMES, metavar="A,B", help=f"Atari games, or sources (default {GAMES})")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="first weights per contestant (default 1)")
    parser.add_argument("--frames", type=int, default=10_000, metavar="N", help="frames to learn from (default 10000)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--together", type=int, default=24, metavar="N", help="learners per pass (default 24)")
    parser.add_argument(
        "--ordinary",
        type=int,
        default=0,
        metavar="N",
        help="also train the default on the same frames, shuffled, in N batches of 16 with Adam",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep weights: FOLDER/10000/Breakout-default-0.safetensors"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("autoencoder.json"), metavar="FILE", help="results (JSON, .md, .html)"
    )
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.see.race import run as autoencoder_race
    from reelrl.see.race import tables as autoencoder_tables
    from reelrl.see.race.contestants import contestants
    from reelrl.see.race.results import Results
    from reelrl.storage.files import writable_folder, write_atomic

    writable_folder(args.out.parent)
    sources = [name if ":" in name else f"ale:{name}" for name in args.games.split(",")]
    wanted = contestants(args.contestants.split(","), sources, args.seeds)
    facts = {"command": shlex.join(["reel", *sys.argv[1:]]), "device": args.device, "stream seed": args.seed}
    results = Results(args.out, facts)
    try:
        autoencoder_race.race(
            wanted,
            args.frames,
            results,
            device=args.device,
            together=args.together,
            seed=args.seed,
            save_to=args.keep,
        )
    except Interrupted as stop:
        output.line("stopped", stop, "saved; the same command goes on")
        output.next_command(facts["command"])
        raise
    if args.ordinary:
        autoencoder_race.ordinary(sources, args.frames, args.ordinary, results, device=args.device, seed=args.seed)
    results.write()
    rows = list(results.rows.values())
    text = autoencoder_tables.markdown(rows)
    write_atomic(args.out.with_suffix(".md"), text)
    autoencoder_tables.write_page(args.out.with_suffix(".html"), rows, results.facts)
    if args.json:
        output.as_json({"facts": results.facts, "rows": rows})
    else:
        print(text)
        output.next_command(f"open {args.out.with_suffix('.html')}")
    return 0
