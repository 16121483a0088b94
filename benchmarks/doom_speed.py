"""Speed of Doom matches against bare ViZDoom processes with the same barrier every tic over pipes, in one run.

    python benchmarks/doom_speed.py

Both play the same scenario at 160x120, every action held for four tics, with a process per player. The bare ones do
what nobody can be spared: set the action, advance a tic, answer; at the fourth tic the picture goes through the pipe.
Ours also tell position, health and the like, stack frames, reckon rewards and watch for the dead.

Blocks of the two alternate; each figure is the best of its blocks, because the rest of the machine can only slow one
down. Several matches are driven by one thread each.

  tics     tics a second, all matches together
  frames   pictures of players a second
  share    our tics over the bare ones; 1.00 is as fast
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import vizdoom

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom import match
from reelrl.act.doom.player_process import BUTTONS
from reelrl.act.doom.ports import free_port
from reelrl.act.doom.scenarios import find as scenario

SKIP = 4
MOST_STEPS = 400  # a block stays inside one episode
ACTIONS = len(BUTTONS) + 1


class Game(Protocol):
    def begin(self) -> None: ...
    def step(self, actions: list[int]) -> None: ...
    def close(self) -> None: ...


class Ours:
    def __init__(self, players: int) -> None:
        self.env = VizDoomCoopParallelEnv(settings(players))

    def begin(self) -> None:
        self.env.reset()

    def step(self, actions: list[int]) -> None:
        self.env.step(dict(zip(self.env.agents, actions, strict=True)))

    def close(self) -> None:
        self.env.close()


class Bare:
    """A process per player, pickles through pipes, and nothing else: one that dies hangs the others."""

    def __init__(self, players: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = scenario.prepare("nine_rooms", Path(self.folder.name))
        self.pipes: list[Connection] = []
        self.children = []
        port = free_port()
        for index in [*range(1, players), 0]:
            ours, theirs = Pipe()
            with theirs:
                words = ["--player", str(theirs.fileno()), str(path), match._game_args(settings(players), index, port)]
                folder = Path(self.folder.name) / str(index)
                folder.mkdir()
                command = [sys.executable, str(Path(__file__).resolve()), *words]
                self.children.append(
                    subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=folder, stdout=subprocess.DEVNULL)
                )
            self.pipes.append(ours)
        for pipe in self.pipes:
            assert pipe.recv() == "ready"

    def begin(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for pipe in self.pipes:
            pipe.recv()

    def step(self, actions: list[int]) -> None:
        for tic in range(SKIP):
            for pipe, action in zip(self.pipes, actions, strict=True):
                pipe.send((action, tic == SKIP - 1))
            seen = [pipe.recv() for pipe in self.pipes]
        assert all(picture.shape == (3, 120, 160) for picture in seen)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for child in self.children:
            child.wait()
        self.folder.cleanup()


def bare_player(descriptor: int, path: str, game_args: str) -> None:
    game = vizdoom.DoomGame()
    game.load_config(path)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_episode_timeout(0)
    game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
    game.set_screen_format(vizdoom.ScreenFormat.CRCGCB)
    game.set_doom_config_path(str(Path.cwd() / "engine.ini"))
    game.set_available_buttons([getattr(vizdoom.Button, name) for name in BUTTONS])
    game.add_game_args(game_args)
    game.init()
    pressed = [[int(index == action - 1) for index in range(len(BUTTONS))] for action in range(ACTIONS)]
    pipe = Connection(descriptor)
    pipe.send("ready")
    try:
        while True:
            message = pipe.recv()
            if message is None:
                game.new_episode()
                pipe.send(None)
                continue
            action, last = message
            game.set_action(pressed[action])
            game.advance_action(1, last)
            pipe.send(game.get_state().screen_buffer if last else None)
    except EOFError:
        game.close()


def settings(players: int) -> VZCoopConfig:
    return VZCoopConfig(num_players=players, skip=SKIP, screen_resolution="RES_160X120")


def block(game: Game, players: int, seconds: float) -> float:
    """Tics a second of one match over a stretch of one episode."""
    game.begin()
    actions = np.random.default_rng(0).integers(ACTIONS, size=(MOST_STEPS, players)).tolist()
    started = time.perf_counter()
    for steps, chosen in enumerate(actions, 1):  # noqa: B007  the number of the last one
        game.step(chosen)
        elapsed = time.perf_counter() - started
        if elapsed > seconds:
            break
    return steps * SKIP / elapsed


def together(pool: ThreadPoolExecutor, games: list[Any], players: int, seconds: float) -> float:
    return sum(pool.map(lambda game: block(game, players, seconds), games))


def compare(players: int, matches: int, repeats: int, seconds: float) -> str:
    with ExitStack() as stack, ThreadPoolExecutor(matches) as pool:
        games = {kind: [stack.enter_context(closing(kind(players))) for _ in range(matches)] for kind in (Ours, Bare)}
        for each in games[Ours]:
            each.begin()
        best = {Ours: 0.0, Bare: 0.0}
        for repeat in range(repeats):
            for kind in (Ours, Bare) if repeat % 2 else (Bare, Ours):
                best[kind] = max(best[kind], together(pool, games[kind], players, seconds))
    ours, bare = best[Ours], best[Bare]
    frames = players * ours / SKIP
    return f"{players:7} {matches:7} {ours:9.0f} {frames:9.0f} {bare:9.0f} {ours / bare:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a block")
    parser.add_argument("--players", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--matches", type=int, nargs="*", default=[2, 4], help="of two players each")
    parser.add_argument("--player", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.player:
        return bare_player(int(args.player[0]), *args.player[1:])
    print("players matches      tics    frames      bare   share")
    for players, matches in [*((players, 1) for players in args.players), *((2, matches) for matches in args.matches)]:
        print(compare(players, matches, args.repeats, args.seconds), flush=True)
    return None


if __name__ == "__main__":
    main()
