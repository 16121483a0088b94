"""Players side by side: what each sees, games and seeds, in one pass over a device per contestant, or of all at once.

A contestant is a way to see ("pixels", "embedding", "embedding:places", "both"), or "chance", which learns nothing. All
its players, one per game and seed, step side by side, each in a game of its own. A figure is the mean return of the
episodes that ended in the last fifth of the frames it played, while it still learned and explored; of chance, of all.

Results are written every minute and in the end. A contestant that is whole is not run again; one that was stopped is.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from reelrl import seeding
from reelrl.act.atari.players import PlayerMoments, StreamingPlayers, one_of
from reelrl.act.atari.settings import AtariTraining, PlayerSettings
from reelrl.act.atari.train import save_player
from reelrl.content.games.row import GameRow
from reelrl.errors import ConfigError, ContentError, InvalidStateError
from reelrl.names import did_you_mean
from reelrl.runs.folder import Run
from reelrl.runs.progress import Progress
from reelrl.runs.saving import Saving
from reelrl.see.race.contestants import contestant_settings
from reelrl.settings import config
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.plain_data import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Row = dict[str, Any]

CHANCE = "chance"
LATE = 0.2
"""Share of the frames in whose end episodes count."""
STRETCH, POINTS = 10_000, 20  # a learning curve has a point per so many frames, or so many points if it is short
DRAWN = 256  # random numbers that are drawn at once
CHECK_EVERY = 1000  # frames between looks at whether figures are numbers
TOGETHER = 8  # players that step at once: with all 24 the games would wait for the device, and it for them
FIRST = "pixels", "embedding", "both", "numbers"


@dataclass(frozen=True)
class PlayerContestant:
    """How somebody sees and learns; None is chance."""

    name: str
    settings: PlayerSettings | None


def contestant(text: str) -> PlayerContestant:
    """One of FIRST or "chance"; ":NAME" names the autoencoder's settings, "+key=value" changes a single one."""
    if text == CHANCE:
        return PlayerContestant(text, None)
    base, *changes = text.split("+")
    observation, _, autoencoder = base.partition(":")
    if observation not in FIRST:
        raise ConfigError(f"contestant {observation!r} is unknown{did_you_mean(observation, [*FIRST, CHANCE])}")
    settings = PlayerSettings(observation=observation)  # type: ignore[arg-type]
    if autoencoder:
        settings = replace(settings, autoencoder=contestant_settings(f"config:{autoencoder}"))
    return PlayerContestant(text, config.override(settings, changes))


class RaceOfPlayers:
    """Contestants on the same games with the same seeds; `rows` has a row per contestant, game and seed."""

    def __init__(self, path: Path, sources: Sequence[str], seeds: Sequence[int], frames: int, facts: Row) -> None:
        if frames < 1 or not sources or not seeds:
            raise ConfigError(f"{frames} frames of {len(sources)} games with {len(seeds)} seeds; give one or more each")
        self.path, self.frames, self.facts = path, frames, facts
        self.games = [(source, seed) for source in sources for seed in seeds]
        self.rows: dict[tuple[str, str, int], Row] = {}
        if path.exists():
            self._load()

    def _load(self) -> None:
        try:
            saved = parse_json(self.path.read_bytes())
            self.rows = {(row["contestant"], row["source"], row["seed"]): row for row in saved["rows"]}
            self.facts = {**saved["facts"], **self.facts}
        except OSError as error:
            raise ContentError(explain_os_error(error, self.path, "read")) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ContentError(f"{self.path} holds no results of ours ({error!r}); move it away") from error

    def run(
        self,
        contestants: Sequence[PlayerContestant],
        device: str = "cpu",
        keep: Path | None = None,
        together: int = TOGETHER,
    ) -> None:
        """Let contestants' players play side by side, but for contestants all of whose players have played.

        Trained players are saved as runs in `keep`.
        """
        missing = [who for who in contestants if not self._has_played(who)]
        if not missing:
            return
        with (
            OnePass(missing, self.games, device, together) as one,
            Progress(" ".join(who.name for who in missing), self.frames, unit="frames") as progress,
        ):
            try:
                with Saving() as saving:
                    while one.done < self.frames:
                        one.step(last=one.done + 1 == self.frames)
                        progress.update()
                        saving.reached(f"frame {one.done}", lambda: self._write(one))
            finally:
                self._write(one)  # also of players whose game failed
            if keep is not None:
                one.save(keep)

    def _has_played(self, who: PlayerContestant) -> bool:
        rows = [self.rows.get((who.name, *game)) for game in self.games]
        return all(row and row["frames"] >= self.frames for row in rows)

    def _write(self, one: OnePass) -> None:
        for (who, (source, seed)), episodes in zip(product(one.contestants, self.games), one.episodes, strict=True):
            self.rows[who.name, source, seed] = {
                "contestant": who.name,
                "source": source,
                "seed": seed,
                "frames": one.done,
                **summary(episodes, self.frames, one.done, learns=who.settings is not None),
                "frames_per_s": round(one.rate, 1),
            }
        ordered = [self.rows[key] for key in sorted(self.rows)]
        write_atomic(self.path, json.dumps({"facts": self.facts, "rows": ordered}) + "\n")


class OnePass:
    """Contestants' players in their games; `together` of them step at once, while the games of others play on."""

    def __init__(
        self, contestants: Sequence[PlayerContestant], games: Sequence[tuple[str, int]], device: str, together: int
    ) -> None:
        if together < 1:
            raise ConfigError(f"{together} players step together; give 1 or more")
        self.contestants, self.done = contestants, 0
        self.groups: list[Group] = []
        try:
            for who, first in product(contestants, range(0, len(games), together)):
                self.groups.append(Group(who, games[first : first + together], device))
        except BaseException:
            self.close()
            raise
        self._start_s = time.perf_counter()

    def step(self, *, last: bool = False) -> None:
        """A moment, an update and an action of each player, which after the `last` moment is chosen, but not taken."""
        self.done += 1
        waiting: Group | None = None
        for group in self.groups:
            group.see(self.done)
            if waiting:
                waiting.act(self.done, last)
            waiting = group
        if waiting:
            waiting.act(self.done, last)

    @property
    def episodes(self) -> list[list[tuple[int, float]]]:
        """Of each player, contestant by contestant: the frame at which an episode ended, and its return."""
        return [each for group in self.groups for each in group.episodes]

    @property
    def rate(self) -> float:
        """Frames of all players a second, games and all."""
        return self.done * len(self.episodes) / max(time.perf_counter() - self._start_s, 1e-9)

    def save(self, root: Path) -> None:
        """Each player as a run of `reel train atari`, to be evaluated, watched or trained further."""
        for group in self.groups:
            group.save(root, self.done)

    def close(self) -> None:
        while self.groups:
            self.groups.pop().games.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Group:
    """Players that step at once, and their games."""

    def __init__(self, who: PlayerContestant, games: Sequence[tuple[str, int]], device: str) -> None:
        self.who, self.seeds = who, [seed for _, seed in games]
        self.games = GameRow(games, who.settings.shows if who.settings else "pictures")
        try:
            if len(kinds := {play.game.facts.actions for play in self.games.plays}) > 1:
                raise ConfigError(f"these games have {sorted(kinds)} actions; players side by side have as many each")
            facts = self.games.plays[0].game.facts
            self.players = StreamingPlayers(who.settings, facts, self.seeds, device) if who.settings else None
        except BaseException:
            self.games.close()
            raise
        if self.players and self.players.device.type == "cuda":
            _pin(self.games.shared)
        self.episodes: list[list[tuple[int, float]]] = [[] for _ in games]
        self._streams = [seeding.stream(seed, "player") for seed in self.seeds]
        self._drawn = np.empty((0, len(games), 2))
        self._chance = np.empty((len(games), 2))
        self.games.ask([0] * len(games))

    def see(self, frame: int) -> None:
        """The games' moments arrive, and the players begin to learn from them."""
        moments, began = self.games.answer()
        for number, moment in enumerate(moments):
            if moment.over:
                self.episodes[number].append((frame, self.games.plays[number].total))
        self._draw(frame)
        if self.players is not None:
            seen = PlayerMoments(
                self.games.pictures,
                np.stack([moment.numbers for moment in moments]),
                [moment.reward for moment in moments],
                [moment.terminated for moment in moments],
                began,
            )
            self.players.begin_step(seen, self._chance)

    def act(self, frame: int, last: bool) -> None:
        """The players have chosen, and unless it was the last moment the games play on."""
        if self.players is None:
            there_are = self.games.plays[0].game.facts.actions
            self.games.ask((self._chance[:, 0] * there_are).astype(int).tolist())
            return
        result = self.players.end_step()
        if not last:  # a game that plays on draws over the picture that its player saw last
            self.games.ask(result.actions)
        if last or frame % CHECK_EVERY == 0:
            self._check(result.figures, frame)

    def _check(self, figures: torch.Tensor, frame: int) -> None:
        if not (finite := figures.isfinite().all(1)).all():
            number = finite.tolist().index(False)
            raise InvalidStateError(
                f"the error of {self.games.plays[number].game.name}, seed {self.seeds[number]}, is no number at frame "
                f"{frame}: the learning went astray; give {self.who.name} a smaller value.lr"
            )

    def _draw(self, frame: int) -> None:
        """Two random numbers for each player, the same as it would draw alone."""
        place = (frame - 1) % DRAWN
        if place == 0:
            self._drawn = np.stack([stream.random((DRAWN, 2)) for stream in self._streams], 1)
        self._chance = self._drawn[place]

    def save(self, root: Path, frame: int) -> None:
        if self.players is None or self.who.settings is None:
            return  # chance has learned nothing
        whole, own = self.players.training_state(), self.who.settings
        facts = {"device": str(self.players.device), "threads": 1}
        for number, (play, seed) in enumerate(zip(self.games.plays, self.seeds, strict=True)):
            player = replace(own, seed=seed, autoencoder=replace(own.autoencoder, seed=seed))
            settings = AtariTraining(source=play.game.name, frames=frame, player=player)
            name = "atari-" + "".join(c if c.isalnum() else "-" for c in play.game.name.partition(":")[2].lower())
            chance = seeding.stream(seed, "player")
            chance.random((frame, 2))  # to where the player is
            returns = [earned for _, earned in self.episodes[number]]
            with Run.create(root, settings, stage="atari", name=name, seed=seed, facts=facts, tensorboard=False) as run:
                save_player(run, frame, one_of(whole, number), play, returns, chance)


def summary(episodes: Sequence[tuple[int, float]], frames: int, done: int, *, learns: bool = True) -> Row:
    """A learning curve: the mean return of the episodes that ended in each stretch of frames; and late returns.

    The stretch is that of `frames`; late is the last fifth of those that are `done`.
    """
    ends = np.array([end for end, _ in episodes], np.int64)
    returns = np.array([earned for _, earned in episodes], np.float64)
    stretch = min(STRETCH, -(-frames // POINTS))
    curve = []
    for first in range(0, done, stretch):
        inside = returns[(ends > first) & (ends <= first + stretch)]
        curve.append(round(float(inside.mean()), 3) if len(inside) else None)
    late = returns[ends > done * (1 - LATE)] if learns else returns
    return {
        "episodes": len(episodes),
        "stretch": stretch,
        "curve": curve,
        "late": [round(float(value), 3) for value in late],
    }


def _pin(memory: NDArray[np.uint8]) -> None:
    """Let the device read the games' pictures where they lie; where that fails they are copied first."""
    if len(memory):
        torch.cuda.cudart().cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)  # type: ignore[no-untyped-call]
