"""Watch a trained player play, as an mp4 that any browser shows.

reel watch atari runs/0007 -o game.mp4
reel watch atari runs/0007 -o game.mp4 --episodes 3 --seed 5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from reelrl.content.games.kinds import Moment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="of `reel train atari`")
    add("-o", "--output", default="game.mp4", metavar="FILE", help="the film (default game.mp4)")
    add("--episodes", type=int, default=1, metavar="N", help="how many episodes to play (default 1)")
    add("--zoom", type=int, default=2, metavar="N", help="pixels of the film for each of the game (default 2)")
    options.add_seed(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.atari.evaluate import forget_players
    from reelrl.content.atari import CONSOLE_FPS, FRAME_SKIP
    from reelrl.content.write.film import write_film

    for name in ("episodes", "zoom"):
        if getattr(args, name) < 1:
            raise ConfigError(f"--{name} {getattr(args, name)}: give 1 or more")
    episodes: list[dict[str, float]] = []
    try:
        count = write_film(args.output, _pictures(args, episodes), CONSOLE_FPS / FRAME_SKIP, args.zoom)
    finally:
        forget_players()
    if args.json:
        output.as_json({"film": args.output, "pictures": count, "episodes": episodes})
    output.line("film", args.output, f"{count} pictures")


def _pictures(args: argparse.Namespace, episodes: list[dict[str, float]]) -> Iterator[NDArray[np.uint8]]:
    """Of all episodes, one after the other; what became of each is added to `episodes`."""
    from reelrl.act.atari.evaluate import GameTask, play_episode
    from reelrl.runs.folder import RunFolder

    folder = str(RunFolder(args.run).folder)
    for number in range(args.episodes):
        moments: list[Moment] = []
        score = play_episode(GameTask(folder, folder, args.seed, number), moments.append, draw=True)
        episodes.append({"return": score.total, "actions": score.actions})
        output.line("episode", number, f"return {score.total:.2f}", f"{score.actions} actions")
        yield from (moment.picture for moment in moments if moment.picture is not None)
