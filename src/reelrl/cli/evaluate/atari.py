"""Let trained players play beside chance, in the same episodes, which no training saw.

reel evaluate atari runs/0007
reel evaluate atari runs/0007 runs/0008 --episodes 20 --workers 4

Players no longer learn while they are judged. Intervals are 95 % bootstrap over episodes; the last column is the
difference from chance in the same episodes. Writes episodes.csv and summary.json.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from reelrl.report.intervals import Interval


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="runs of `reel train atari` in the same game")
    add("--episodes", type=int, default=10, metavar="N", help="episodes of each player (default 10)")
    add("-o", "--out", default="runs/evaluate-atari", metavar="FOLDER", help="where results go")
    options.add_workers(parser, 1, "episodes played at the same time")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.atari.evaluate import CHANCE, play_all, require_checkpoint, summarise, write_records
    from reelrl.act.atari.settings import AtariTraining
    from reelrl.runs.folder import RunFolder
    from reelrl.storage.files import writable_folder

    if args.episodes < 1:
        raise ConfigError(f"--episodes {args.episodes}: give 1 or more")
    folders = [str(RunFolder(path).folder) for path in args.runs]
    sources = {RunFolder(path).settings(AtariTraining).source for path in folders}
    if len(sources) > 1:
        raise ConfigError(f"these runs play different games ({', '.join(sorted(sources))}); compare them one by one")
    for each in folders:
        require_checkpoint(each)  # now, not when its turn comes after many episodes
    folder = writable_folder(args.out)
    players = list(dict.fromkeys(folders))
    scores = play_all([CHANCE, *players], players[0], args.episodes, args.seed, jobs=args.jobs)
    rows = summarise(scores)
    facts = {
        "game": sources.pop(),
        "episodes": args.episodes,
        "seed": args.seed,
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
    write_records(folder, scores, rows, facts)
    if args.json:
        output.as_json({row.player: row.record() for row in rows})
        return
    for row in rows:
        more = [] if row.above_chance is None else [f"{_text(row.above_chance)} above chance"]
        output.line("player", row.player, f"return {_text(row.returns)}", *more)
    output.next_command(f"reel watch atari {players[0]} -o game.mp4")


def _text(interval: Interval) -> str:
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
