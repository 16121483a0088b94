"""Learned frames per second of players, the games' own time aside.

    python benchmarks/atari_speed.py                                # one player on Breakout's pictures, one CPU thread
    python benchmarks/atari_speed.py --device cuda --frames 3000 --players 1,24 --ways pixels,embedding

"plain" is the loop one would write first: three forward passes a frame, running moments in NumPy, a loop over
parameters that reads each trace's size back. It learns the same as "pixels". All ways take turns, and each one's best
round counts: CPU time of one player on the CPU, and on a GPU time from the first moment to the last action.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from reelrl.act.atari.net import PlayerNet
from reelrl.act.atari.players import PlayerMoments, StreamingPlayers
from reelrl.act.atari.settings import PlayerSettings, TraceOptimiserSettings
from reelrl.content.games.kinds import GameFacts, Moment, open_game

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ACTIONS = 18
WARM_UP = 5  # frames that are not counted


def moments(frames: int) -> list[tuple[Moment, bool]]:
    """Breakout under random buttons."""
    game, chance = open_game("ale:Breakout", 0), np.random.default_rng(0)
    seen: list[tuple[Moment, bool]] = [(game.begin(0), True)]
    while len(seen) < frames:
        last = seen[-1][0]
        episode = sum(began for _, began in seen)
        seen.append((game.begin(episode), True) if last.over else (game.act(int(chance.integers(ACTIONS))), False))
    return seen


class PlainPlayer:
    """Q(lambda) with ObGD, as one would write it first."""

    def __init__(self, settings: PlayerSettings) -> None:
        self.settings = settings
        shape = (settings.stack, settings.size, settings.size)
        self.net = PlayerNet({"pixels": shape}, settings.net, ACTIONS, torch.Generator().manual_seed(settings.seed))
        self.traces = [torch.zeros_like(weight) for weight in self.net.parameters()]
        self.stack = np.zeros(shape)
        self.mean, self.squares, self.count = np.zeros(shape), np.zeros(shape), 0
        self.total = self.reward_mean = self.reward_squares = 0.0
        self.rewards = self.frames = 0
        self.last: tuple[Any, int] | None = None

    def step(self, moment: Moment, began: bool, chance: Any) -> int:
        seen = self._seen(moment, began)
        if not began and self.last is not None:
            self._learn(*self.last, self._scaled(moment.reward), seen, moment.terminated)
        else:
            self.total = 0.0
        with torch.no_grad():
            best = int(self.net({"pixels": seen})[0].argmax())
        explores = chance[0] < self.settings.epsilon_at(self.frames)
        action = int(chance[1] * ACTIONS) if explores else best
        if began or action != best:
            for trace in self.traces:
                trace.zero_()
        self.last, self.frames = (seen, action), self.frames + 1
        return action

    def _seen(self, moment: Moment, began: bool) -> Any:
        if moment.picture is None:
            raise ValueError("a moment has no picture")
        picture = torch.from_numpy(moment.picture).float() @ torch.tensor([0.299, 0.587, 0.114]) / 255
        small = functional.adaptive_avg_pool2d(picture[None], self.settings.size)[0].numpy()
        self.stack = np.stack([small] * self.settings.stack) if began else np.concatenate([self.stack[1:], small[None]])
        self.count += 1
        before = self.stack - self.mean
        self.mean = self.mean + before / self.count
        self.squares = self.squares + before * (self.stack - self.mean)
        variance = self.squares / (self.count - 1) if self.count > 1 else np.ones_like(self.squares)
        return torch.from_numpy((self.stack - self.mean) / np.sqrt(variance + 1e-8)).float()[None]

    def _scaled(self, reward: float) -> float:
        self.total = self.settings.gamma * self.total + reward
        self.rewards += 1
        before = self.total - self.reward_mean
        self.reward_mean += before / self.rewards
        self.reward_squares += before * (self.total - self.reward_mean)
        variance = self.reward_squares / (self.rewards - 1) if self.rewards > 1 else 1.0
        return reward / float(np.sqrt(variance + 1e-8))

    def _learn(self, seen: Any, action: int, reward: float, after: Any, terminated: bool) -> None:
        settings = self.settings
        value = self.net({"pixels": seen})[0, action]
        with torch.no_grad():
            best = self.net({"pixels": after}).max().item()
        delta = reward + (0.0 if terminated else settings.gamma * best) - value.item()
        self.net.zero_grad()
        value.backward()
        size = 0.0
        with torch.no_grad():
            for weight, trace in zip(self.net.parameters(), self.traces, strict=True):
                trace.mul_(settings.gamma * settings.lamda).add_(weight.grad if weight.grad is not None else 0.0)
                size += trace.abs().sum().item()
            rate = 1.0 / max(settings.value.kappa * max(abs(delta), 1.0) * size, 1.0)
            for weight, trace in zip(self.net.parameters(), self.traces, strict=True):
                weight.add_(rate * delta * trace)


class SideBySide:
    """As many players as asked for, whose pictures lie in one memory; each moment is shown to one of them in turn."""

    def __init__(self, settings: PlayerSettings, players: int, device: str) -> None:
        self.players, self.count = StreamingPlayers(settings, GameFacts(ACTIONS, 0), range(players), device), players
        self.pictures = torch.zeros(players, 210, 160, 3, dtype=torch.uint8, pin_memory=device != "cpu").numpy()
        self.steps = 0

    def step(self, moment: Moment, began: bool, chance: Any) -> None:
        self.pictures[self.steps % self.count] = moment.picture
        numbers = np.zeros((self.count, 0), np.float32)
        rewards, ends, begins = [moment.reward] * self.count, [moment.terminated] * self.count, [began] * self.count
        self.players.step(
            PlayerMoments([self.pictures], numbers, rewards, ends, begins), np.tile(chance, (self.count, 1))
        )
        self.steps += 1


def ways(device: str) -> dict[str, Callable[[int], Any]]:
    settings = PlayerSettings()
    places = replace(settings.autoencoder, bounded=True, averages=True)
    chosen = {
        "pixels": settings,
        "trace-adam": replace(settings, value=TraceOptimiserSettings(name="trace-adam")),
        "intentional": replace(settings, value=TraceOptimiserSettings(name="intentional")),
        "actor-critic": replace(settings, algorithm="actor-critic"),
        "embedding": replace(settings, observation="embedding"),
        "both": replace(settings, observation="both", autoencoder=places),
    }
    learned = {name: partial(_side_by_side, each, device) for name, each in chosen.items()}
    return {"plain": lambda _: PlainPlayer(settings), **learned}


def _side_by_side(settings: PlayerSettings, device: str, players: int) -> SideBySide:
    return SideBySide(settings, players, device)


def seconds_of(player: Any, seen: Sequence[tuple[Moment, bool]], clock: Callable[[], float]) -> float:
    """Seconds for the moments, after a few to warm up."""
    chance = np.random.default_rng(1)
    start_s = 0.0
    for number, (moment, began) in enumerate(seen):
        if number == WARM_UP:
            start_s = clock()
        player.step(moment, began, chance.random(2))
    return clock() - start_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--players", default="1", help="how many side by side, such as 1,24")
    parser.add_argument("--ways", default="plain,pixels,actor-critic,embedding,both")
    args = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if args.device == "cpu" else time.perf_counter
    seen, makers = moments(args.frames), ways(args.device)
    runs = [(name, int(count)) for name in args.ways.split(",") for count in args.players.split(",")]
    runs = [(name, count) for name, count in runs if name != "plain" or count == 1]
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(args.rounds):
        for name, count in runs:
            best[name, count] = min(best[name, count], seconds_of(makers[name](count), seen, clock))
    plain = best.get(("plain", 1))
    for (name, count), seconds in best.items():
        rate = count * (args.frames - WARM_UP) / seconds
        beside = f"   {rate * plain / (args.frames - WARM_UP):6.2f} x plain" if plain else ""
        print(f"{name:<14}{count:4} players {rate:10.1f} frames/s{beside}", flush=True)


if __name__ == "__main__":
    main()
