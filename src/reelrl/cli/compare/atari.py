"""Compare ways to see of players that learn while they play, in the same games, with chance beside them.

    reel compare atari --contestants chance,pixels,embedding:places --games Breakout,Assault --seeds 3 --frames 200000

A contestant is "pixels", "embedding", "both" or "chance"; ":NAME" names the settings of the autoencoder beside it, and
"+key=value" changes a single setting, as in "pixels+value.name=trace-adam". All players of a contestant, one per game
and seed, step together, on a GPU as one CUDA graph. Results are written every minute; a contestant that is whole is not
run again.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse

USUAL = "chance,pixels,embedding,both"
GAMES = "Breakout,Assault,SpaceInvaders,Pacman,Asteroids,Boxing,Freeway,Seaquest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--contestants", default=USUAL, metavar="A,B", help=f"who plays (default {USUAL})")
    add("--games", default=GAMES, metavar="A,B", help=f"Atari games, or sources (default {GAMES})")
    add("--seeds", type=int, default=3, metavar="N", help="players per contestant and game (default 3)")
    add("--frames", type=int, default=200_000, metavar="N", help="frames that each plays (default 200000)")
    add("--together", type=int, default=8, metavar="N", help="players that step at once (default 8)")
    add("--at-once", action="store_true", help="all contestants play at the same time, not one after the other")
    add("--device", default="cpu", help="cpu or cuda (default cpu)")
    add("--keep", type=Path, metavar="FOLDER", help="save trained players there, as runs of `reel train atari`")
    add("-o", "--out", type=Path, default=Path("atari.json"), metavar="FILE", help="results (JSON, and a table: .md)")
    add(
        "--between",
        type=int,
        nargs=2,
        metavar=("A", "B"),
        help="the table is of the stretches of learning curves that end at frames A to B",
    )
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.atari.race import RaceOfPlayers, contestant
    from reelrl.act.atari.race_tables import markdown
    from reelrl.agents.devices import use_device
    from reelrl.storage.files import writable_folder, write_atomic

    writable_folder(args.out.parent)
    wanted = [contestant(name) for name in args.contestants.split(",")]
    sources = [name if ":" in name else f"ale:{name}" for name in args.games.split(",")]
    device = str(use_device(args.device, threads=1))
    facts = {"command": shlex.join(["reel", *sys.argv[1:]]), "device": device}
    seeds = range(args.seed, args.seed + args.seeds)
    race = RaceOfPlayers(args.out, sources, seeds, args.frames, facts)
    for some in [wanted] if args.at_once else [[each] for each in wanted]:
        race.run(some, device, args.keep, args.together)
        for each in some:
            rows = [row for row in race.rows.values() if row["contestant"] == each.name]
            if each.settings and rows:
                output.line("player", each.name, f"{rows[0]['frames_per_s']:.0f} frames/s")
    rows = list(race.rows.values())
    text = markdown(rows, tuple(args.between) if args.between else None)
    write_atomic(args.out.with_suffix(".md"), text)
    if args.json:
        output.as_json({"facts": race.facts, "rows": rows})
    else:
        print(text)
