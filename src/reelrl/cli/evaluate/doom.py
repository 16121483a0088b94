"""Compare trained teams with chance and with a simple rule, in the same matches.

reel evaluate doom runs/0007
reel evaluate doom runs/0007 runs/0008 runs/0009 --episodes 20

Every team plays the same seeds. Given several runs (seeds of one training), the trained team's figure is over all of
their episodes. Intervals are 95 % bootstrap; the last column is the difference from chance on the same matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from reelrl.act.doom.teams import Episode, Team
    from reelrl.report.intervals import Interval


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs of `reel train doom` with the same match")
    parser.add_argument("--episodes", type=int, default=10, metavar="N", help="matches for each team (default 10)")
    parser.add_argument("--greedy", action="store_true", help="trained players take the best action, not a draw")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.doom.teams import RandomTeam, SweepingTeam, TrainedTeam, settings_of
    from reelrl.agents.devices import use_device
    from reelrl.runs.folder import RunFolder

    if args.episodes < 1:
        raise ConfigError(f"--episodes {args.episodes}: give 1 or more")
    use_device("cpu")
    folders = [RunFolder(path) for path in args.runs]
    tasks = [settings_of(folder).task for folder in folders]
    if any(task != tasks[0] for task in tasks):
        raise ConfigError("these runs were trained in different matches; compare them one by one")
    teams: dict[str, Team] = {"chance": RandomTeam(), "sweep": SweepingTeam()}
    teams |= {str(folder.folder): TrainedTeam(folder, greedy=args.greedy) for folder in folders}
    played = play_all(settings_of(folders[0]), teams, args.episodes, args.seed)
    table = _table(played, [str(folder.folder) for folder in folders])
    if args.json:
        output.as_json({name: {key: _plain(value) for key, value in row.items()} for name, row in table.items()})
        return
    for name, row in table.items():
        more = [] if row["more"] is None else [f"{_text(row['more'])} above chance"]
        output.line("team", name, f"return {_text(row['return'])}", f"kills {row['kills']:.1f}", *more)
    output.next_command(f"reel watch doom {folders[0].folder} -o match.mp4")


def play_all(settings: Any, teams: Mapping[str, Team], episodes: int, seed: int) -> dict[str, list[Episode]]:
    """Episodes of every team, all in the same matches."""
    from reelrl import seeding
    from reelrl.act.doom.teams import make_env, play

    played: dict[str, list[Episode]] = {name: [] for name in teams}
    env = make_env(settings)
    try:
        with Progress("play", episodes * len(teams), unit="matches") as progress:
            for number in range(episodes):
                for name, team in teams.items():
                    played[name].append(play(env, team, seeding.seed_for(seed, "evaluation", number)))
                    progress.update()
    finally:
        env.close()
    return played


def _table(played: dict[str, list[Episode]], trained: list[str]) -> dict[str, dict[str, Any]]:
    import numpy as np

    from reelrl.report.intervals import mean_interval, paired_interval

    rows = dict(played)
    if len(trained) > 1:
        rows["all runs"] = [episode for name in trained for episode in played[name]]
    chance = np.array([episode.reward for episode in played["chance"]])
    table = {}
    for name, episodes in rows.items():
        rewards = np.array([episode.reward for episode in episodes])
        more = None if name == "chance" else paired_interval(rewards, np.tile(chance, len(rewards) // len(chance)))
        kills = float(np.mean([episode.kills for episode in episodes]))
        table[name] = {"return": mean_interval(rewards), "kills": kills, "more": more, "episodes": len(rewards)}
    return table


def _text(interval: Interval) -> str:
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
