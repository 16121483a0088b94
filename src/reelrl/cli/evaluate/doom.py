"""Compare trained teams with chance and with a simple rule, in the same matches.

reel evaluate doom runs/0007
reel evaluate doom runs/0007 runs/0008 runs/0009 --episodes 20 --workers 4
reel evaluate doom gate --ablations                   the team that ships, also with views that are not its own
reel evaluate doom duel                               two sides: every rule against every rule
reel evaluate doom runs/0010 --against runs/0010/artifacts/earlier.safetensors       and a team's, against more

Every team plays the same seeds. Given several runs (seeds of one training), the trained team's figure is over all of
their episodes. Intervals are 95 % bootstrap; the last column is the difference from chance on the same matches. Writes
episodes.csv, summary.json and index.html.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.act.doom.saved_teams import SavedTeam
    from reelrl.report.intervals import Interval


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "runs",
        nargs="+",
        metavar="RUN",
        help="runs of `reel train doom` in the same match, files of teams, names of teams that ship, or duel",
    )
    add(
        "--against",
        nargs="+",
        default=[],
        metavar="RUN",
        help="where two sides play: more teams for side B, such as a run's artifacts/earlier.safetensors",
    )
    add("--episodes", type=int, default=10, metavar="N", help="matches for each team (default 10)")
    add("--ablations", action="store_true", help="also with black views, and with views swapped among the players")
    add("--greedy", action="store_true", help="trained players take the best action, not a draw")
    add("-o", "--out", default="runs/evaluate-doom", metavar="FOLDER", help="where results go")
    # A match of two players keeps two cores busy already.
    options.add_workers(parser, 1, "matches played at the same time")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.marl.evaluate import BLACK, SWAPPED, baselines_of, play_all, summarise, write_records
    from reelrl.act.marl.page import write_page
    from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW
    from reelrl.storage.files import writable_folder

    if args.episodes < 1:
        raise ConfigError(f"--episodes {args.episodes}: give 1 or more")
    runs, match = _opened(args)
    folder = writable_folder(args.out)
    if match["sides"] == 2:
        _two_sides(args, folder, runs, match)
        return
    trained = list(dict.fromkeys(each.name for each in runs))
    teams = [*baselines_of(match["config_path"]), *trained]
    teams += [f"{each}{ending}" for each in trained for ending in ((BLACK, SWAPPED) if args.ablations else ())]
    played = play_all(runs[0].name, teams, args.episodes, args.seed, greedy=args.greedy, jobs=args.jobs)
    rows = summarise(played, trained)
    facts = _facts(args, runs, match)
    write_records(folder, played, rows, facts)
    write_page(own_path(folder / "index.html"), played, rows, trained, facts)
    if args.json:
        output.as_json({row.team: row.record() for row in rows})
        return
    for row in rows:
        more = [] if row.above_chance is None else [f"{_text(row.above_chance)} above chance"]
        output.line("team", row.team, f"return {_text(row.returns)}", f"kills {row.kills:.1f}", *more)
    if args.episodes < LEAST_MATCHES:
        output.line("note", TOO_FEW)
    output.line("page", folder / "index.html", "open it in a browser")
    output.next_command(f"reel watch doom {runs[0].name} -o match.mp4")


def _opened(args: argparse.Namespace) -> tuple[list[SavedTeam], dict[str, Any]]:
    """The teams, and the match that they play: now, not when its turn comes after many matches."""
    from reelrl.act.doom.saved_teams import open_team
    from reelrl.act.marl.duels import is_two_sided, match_of

    rules_only = [name for name in args.runs if is_two_sided(name)]
    if rules_only and len(args.runs) > 1:
        raise ConfigError(
            f"{rules_only[0]} is a scenario, and its rules play with every team of it; give it alone, or not"
        )
    runs = [] if rules_only else [open_team(name) for name in args.runs]
    # Runs of earlier versions do not say how many sides there are.
    tasks = [match_of(name) for name in rules_only] or [{"sides": 1, **each.task} for each in runs]
    if args.against and tasks[0]["sides"] == 1:
        raise ConfigError(
            f"--against {args.against[0]}: nobody is against anybody in {tasks[0]['config_path']}; leave it out"
        )
    if any(task != tasks[0] for task in tasks):
        raise ConfigError("these runs were trained in different matches; compare them one by one")
    return runs, tasks[0]


def _two_sides(args: argparse.Namespace, folder: Path, runs: Sequence[SavedTeam], task: dict[str, Any]) -> None:
    """Pairs of sides in the place of teams."""
    from reelrl.act.doom.saved_teams import open_team
    from reelrl.act.marl import duel_page, duels
    from reelrl.act.marl.evaluate import BLACK
    from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW

    trained = list(dict.fromkeys(each.name for each in runs))
    trained += [f"{each}{BLACK}" for each in trained] if args.ablations else []
    pairs = duels.pairs(trained, [open_team(name).name for name in args.against])
    played = duels.play_all(task, pairs, args.episodes, args.seed, greedy=args.greedy, jobs=args.jobs)
    rows = duels.summarise(played)
    facts = _facts(args, runs, task)
    duels.write_records(folder, played, rows, facts)
    duel_page.write_page(own_path(folder / "index.html"), rows, facts)
    if args.json:
        output.as_json([row.record() for row in rows])
        return
    for row in rows:
        output.line("pair", " against ".join(row.pair), f"ahead {duel_page.cell(row.ahead)}", f"frags {row.frags:.1f}")
    if args.episodes < LEAST_MATCHES:
        output.line("note", TOO_FEW)
    output.line("page", folder / "index.html", "open it in a browser")
    output.next_command(f"reel watch doom {trained[0]} -o match.mp4" if trained else "reel train doom --scenario duel")


def _facts(args: argparse.Namespace, runs: Sequence[SavedTeam], task: dict[str, Any]) -> dict[str, Any]:
    return {
        "scenario": task["config_path"],
        "players": task["num_players"],
        "matches": args.episodes,
        "steps of a match, at most": task["max_steps"],
        "tics to an action": task["skip"],
        "trained teams": ", ".join(f"{each.name} ({_origin(each)})" for each in runs) or "none",
        "actions": "the best" if args.greedy else "drawn",
        "seed": args.seed,
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }


def _origin(team: SavedTeam) -> str:
    return f"step {team.step}" if team.seed is None else f"seed {team.seed}"


def _text(interval: Interval) -> str:
    return f"{interval.mean:.2f}" + (f" [{interval.low:.2f}, {interval.high:.2f}]" if interval.is_known else "")
