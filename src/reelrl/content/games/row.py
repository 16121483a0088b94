"""Games played side by side, each in a process of its own, all drawing into one memory.

    with GameRow([("ale:Breakout", 0), ("ale:Pacman", 1)]) as row:
        moments, began = row.next([0, 0])           # an action each; ignored where an episode begins
        row.pictures                                # [(1, 210, 160, 3), (1, 250, 160, 3)]

Pictures of games in a row that have the same size lie in one array, which the next moments overwrite.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from mmap import mmap
from typing import TYPE_CHECKING, Self

import numpy as np

from reelrl.content.games.play import Play
from reelrl.content.games.process import GameProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.content.games.kinds import Moment, Shows

STARTS = 16  # processes that start at the same time


class GameRow:
    """The plays of several games, a name and a seed each."""

    def __init__(self, games: Sequence[tuple[str, int]], shows: Shows = "pictures") -> None:
        self._memory = os.memfd_create("pictures")
        self._started: list[GameProcess] = []
        try:
            with ThreadPoolExecutor(STARTS) as pool:
                self.plays = [Play(game) for game in pool.map(lambda game: self._start(game, shows), games)]
            self.shared = np.empty(0, np.uint8)
            """The memory that holds all pictures."""
            self.pictures: list[NDArray[np.uint8]] = []
            if shows != "numbers":
                self._share()
        except BaseException:
            self.close()
            raise

    def next(self, actions: Sequence[int]) -> tuple[list[Moment], list[bool]]:
        """Each game's next moment, and whether an episode begins with it. All games play at the same time."""
        self.ask(actions)
        return self.answer()

    def ask(self, actions: Sequence[int]) -> None:
        """The first half of `next`: the games play on while something else is done."""
        for play, action in zip(self.plays, actions, strict=True):
            play.ask(action)

    def answer(self) -> tuple[list[Moment], list[bool]]:
        """The second half of `next`."""
        answers = [play.answer() for play in self.plays]
        return [moment for moment, _ in answers], [began for _, began in answers]

    def close(self) -> None:
        """End all processes. A second call does nothing."""
        while self._started:
            self._started.pop().close()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, game: tuple[str, int], shows: Shows) -> GameProcess:
        started = GameProcess(*game, shows, self._memory)
        self._started.append(started)
        return started

    def _share(self) -> None:
        sizes = [(play.game.facts.height, play.game.facts.width, 3) for play in self.plays]
        os.ftruncate(self._memory, int(sum(np.prod(size) for size in sizes)))
        self.shared = np.frombuffer(mmap(self._memory, 0), np.uint8)
        plays, offset = iter(self.plays), 0
        for size, members in groupby(sizes):
            count = len(list(members))
            group = self.shared[offset : offset + count * int(np.prod(size))].reshape(count, *size)
            for place in group:
                next(plays).game.draw_into(place, offset)
                offset += place.size
            self.pictures.append(group)
