"""Watch a trained team play: all views side by side, as an mp4 that any browser shows.

reel watch doom runs/0007 -o match.mp4
reel watch doom runs/0007 -o match.mp4 --episodes 3 --seed 5 --greedy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="of `reel train doom`, a team's file, or a team that ships by name")
    add("-o", "--output", default="match.mp4", metavar="FILE", help="the film (default match.mp4)")
    add("--episodes", type=int, default=1, metavar="N", help="how many episodes to play (default 1)")
    add("--zoom", type=int, default=4, metavar="N", help="pixels of the film for each that a player sees (default 4)")
    add("--greedy", action="store_true", help="players take the best action, not a draw")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl import seeding
    from reelrl.act.doom.saved_teams import open_team
    from reelrl.act.doom.teams import TwoSides, play
    from reelrl.agents.devices import use_device
    from reelrl.content.write.film import write_film

    for name in ("episodes", "zoom"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}: give 1 or more")
    use_device("cpu")
    saved = open_team(args.run)
    team = saved.team(greedy=args.greedy)
    if saved.task.get("sides", 1) == 2:  # against itself
        team = TwoSides(team, saved.team(greedy=args.greedy))
    output.line("team", saved.name, f"step {saved.step}")
    episodes: list[dict[str, float]] = []
    pictures: list[NDArray] = []  # type: ignore[type-arg]
    env = saved.make_env()
    try:
        for number in range(args.episodes):
            seed = seeding.seed_for(args.seed, "watch", number)
            episode = play(env, team, seed, lambda: pictures.append(env.render()))
            episodes.append({"return": episode.reward, "kills": episode.kills})
            output.line("match", number, f"return {episode.reward:.2f}", f"kills {episode.kills}")
        count = write_film(args.output, pictures, env.cfg.ticrate / env.cfg.skip, args.zoom)
    finally:
        env.close()
    if args.json:
        output.as_json({"film": args.output, "pictures": count, "episodes": episodes})
    output.line("film", args.output, f"{count} pictures")
