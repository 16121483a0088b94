"""Trained players and chance in the same episodes: who earns what, and what that says.

played = play_all(["chance", "runs/0007"], episodes=10, seed=0)
rows = summarise(played)

A player that is judged no longer learns: its weights and what normalises its observations stay as they were saved.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import seeding
from reelrl.act.atari.players import PlayerMoments, StreamingPlayers
from reelrl.act.atari.settings import AtariTraining
from reelrl.agents.devices import use_device
from reelrl.content.atari import FRAME_SKIP
from reelrl.content.games.kinds import GameFacts, Moment
from reelrl.content.games.play import Play
from reelrl.content.games.process import GameProcess
from reelrl.errors import CheckpointError, ConfigError
from reelrl.parallel.executor import executor
from reelrl.report import records
from reelrl.report.intervals import Interval, mean_interval, paired_interval
from reelrl.runs.checkpoints import restoring
from reelrl.runs.folder import RunFolder
from reelrl.runs.progress import Progress
from reelrl.see.train import tensors_below

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from reelrl.content.games.kinds import Shows
    from reelrl.runs.checkpoints import Checkpoint

CHANCE = "chance"
_GAMES: list[GameProcess] = []


@dataclass(frozen=True)
class GameTask:
    """One episode of one player: chance, or the folder of a run. `game_of` is the run whose game it is."""

    game_of: str
    player: str
    seed: int
    episode: int


@dataclass(frozen=True)
class GameScore:
    """What a player earned in an episode, and in how many actions."""

    player: str
    episode: int
    total: float
    actions: int


@dataclass(frozen=True)
class PlayerRow:
    """A player's mean return, and how much more that is than chance earned in the same episodes."""

    player: str
    returns: Interval
    above_chance: Interval | None
    episodes: int

    def record(self) -> dict[str, Any]:
        more = None if self.above_chance is None else list(self.above_chance)
        return {"return": list(self.returns), "more": more, "episodes": self.episodes}


def play_all(players: Sequence[str], game_of: str, episodes: int, seed: int, *, jobs: int = 1) -> list[GameScore]:
    """Every player's episodes, all with the same chance of the game, which no training saw."""
    # Episode by episode: what is broken off half-way has compared everybody on the episodes it has.
    tasks = [GameTask(game_of, player, seed, number) for number in range(episodes) for player in players]
    try:
        with executor(jobs) as work, Progress("play", len(tasks), unit="episodes") as progress:
            scores = []
            for score in work.map(play_episode, tasks, name=lambda task: f"{task.player}, episode {task.episode}"):
                scores.append(score)
                progress.update()
            return scores
    finally:
        forget_players()


def play_episode(task: GameTask, watch: Callable[[Moment], None] = lambda _: None, *, draw: bool = False) -> GameScore:
    """One episode; `watch` sees every moment, with its picture where `draw` asks for it."""
    # One thread: more add up in another order, and a last bit that differs can tip a choice.
    use_device("cpu", threads=1)
    settings = RunFolder(task.game_of).settings(AtariTraining)
    shows = "both" if draw and settings.player.shows == "numbers" else settings.player.shows
    chance = seeding.stream(task.seed, "evaluation", task.player == CHANCE, task.episode)
    play, action = Play(_game(settings.source, seeding.seed_for(task.seed, "evaluation"), shows), task.episode), 0
    while play.last is None or not play.last.over:
        moment, began = play.next(action)
        watch(moment)
        draws = chance.random(2)
        if task.player == CHANCE:
            action = int(draws[0] * play.game.facts.actions)
        else:
            action = load_player(task.player).play(PlayerMoments.of([moment], [began]), draws[None])[0]
    return GameScore(task.player, task.episode, play.total, len(play.actions))


@cache
def load_player(run: str) -> StreamingPlayers:
    """The player of a run's newest checkpoint; loaded once per process."""
    settings = RunFolder(run).settings(AtariTraining)
    return _trained(run, _game(settings.source, 0, settings.player.shows).facts)


def _trained(run: str, facts: GameFacts) -> StreamingPlayers:
    settings, saved = RunFolder(run).settings(AtariTraining), require_checkpoint(run)
    player = StreamingPlayers(settings.player, facts)
    with restoring(saved.folder):
        player.load_training_state(tensors_below(saved, "player.") | saved.state["player"])
    return player


class TrainedHand:
    """Presses the buttons that the player of a run chooses, in clips of its game."""

    def __init__(self, game: str, seed: int, player: str) -> None:
        played = RunFolder(player).settings(AtariTraining).source
        if played != f"ale:{game}":
            raise ConfigError(f"the player of {player} has learned {played}; a clip of {game} needs one that plays it")
        require_checkpoint(player)
        self._run, self._chance = player, seeding.stream(seed, "clip", game)
        self._player: StreamingPlayers | None = None

    def __call__(self, console: Any, began: bool) -> tuple[Any, int]:
        """The button that is chosen at what the console shows, for as long as a picture lasts for the player."""
        buttons = console.getLegalActionSet()
        if self._player is None:
            use_device("cpu", threads=1)  # more threads add up in another order
            self._player = _trained(self._run, GameFacts(len(buttons), 0))
        moment = Moment(console.getScreenRGB(), np.zeros(0, np.float32))
        action = self._player.play(PlayerMoments.of([moment], [began]), self._chance.random((1, 2)))[0]
        return buttons[action], FRAME_SKIP


def require_checkpoint(run: str) -> Checkpoint:
    """The newest checkpoint of a run."""
    saved = RunFolder(run).checkpoints.latest()
    if saved is None:
        raise CheckpointError(f"{run} has no checkpoint yet; train it: reel train atari --resume {run}")
    return saved


@cache
def _game(source: str, seed: int, shows: Shows) -> GameProcess:
    """A game's process, started once for all episodes that this process plays in it."""
    game = GameProcess(source, seed, shows)
    _GAMES.append(game)
    return game


def forget_players() -> None:
    """End all games; a run may be trained further before this process looks at it again."""
    load_player.cache_clear()
    _game.cache_clear()
    while _GAMES:
        _GAMES.pop().close()


def summarise(scores: Sequence[GameScore]) -> list[PlayerRow]:
    """A row per player."""
    returns: dict[str, list[float]] = {}
    for score in scores:
        returns.setdefault(score.player, []).append(score.total)
    chance = np.array(returns[CHANCE])
    return [
        PlayerRow(
            player=player,
            returns=mean_interval(np.array(earned)),
            above_chance=None if player == CHANCE else paired_interval(np.array(earned), chance),
            episodes=len(earned),
        )
        for player, earned in returns.items()
    ]


def write_records(
    folder: Path, scores: Sequence[GameScore], rows: Sequence[PlayerRow], facts: Mapping[str, Any]
) -> None:
    """episodes.csv and summary.json."""
    tables = {"episodes": [asdict(score) for score in scores]}
    records.write(folder, tables, {"players": {row.player: row.record() for row in rows}}, dict(facts))
