"""A game as it is played: episode after episode, and a place that can be saved and come back to.

    play = Play(GameProcess("ale:Breakout", seed=0))
    while True:
        moment, began = play.next(action)           # the action is ignored where an episode begins

The place is the number of the episode and the actions taken in it, which are taken again to come back.
"""

from __future__ import annotations

import warnings
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.content.games.kinds import Moment
    from reelrl.content.games.process import GameProcess


class Play:
    """The moments of a game, one after the other."""

    def __init__(self, game: GameProcess, episode: int = 0) -> None:
        self.game = game
        self.episode = episode
        """The episode under way, or the first one before it is begun."""
        self.actions: list[int] = []
        """What was done in it."""
        self.total = 0.0
        """What it earned so far."""
        self.last: Moment | None = None
        self._asked: int | None = None
        self._away: dict[str, Any] | None = None

    def next(self, action: int) -> tuple[Moment, bool]:
        """The moment after the action, or the first of an episode (True); an error leaves the place as it was."""
        self.ask(action)
        return self.answer()

    def ask(self, action: int) -> None:
        """The first half of `next`: the game plays on while something else is done."""
        if self._away is not None:
            self._come_back(self._away)
        if self.last is None or self.last.over:
            self._asked = None
            self.game.send_begin(self.episode + (self.last is not None))
        else:
            self._asked = action
            self.game.send(action)

    def answer(self) -> tuple[Moment, bool]:
        """The second half of `next`."""
        moment = self.game.receive()
        if self._asked is None:
            self.episode, self.actions, self.total = self.episode + (self.last is not None), [], 0.0
        else:
            self.actions.append(self._asked)
            self.total += moment.reward
        self.last = moment
        return moment, self._asked is None

    def place(self) -> dict[str, Any]:
        """Where the game stands, as plain data; the actions are saved beside it."""
        if self._away is not None:
            return self._away
        return {"episode": self.episode, "total": self.total, "shown": None if self.last is None else _sum(self.last)}

    def go_to(self, place: Mapping[str, Any], actions: Sequence[int]) -> None:
        """Go on from a saved place; the game comes back to it when its next moment is asked for."""
        self.episode, self.total = int(place["episode"]), float(place["total"])
        self.actions = [int(action) for action in actions]
        self._away = None if place["shown"] is None else dict(place)

    def _come_back(self, place: Mapping[str, Any]) -> None:
        self.last = self.game.begin(self.episode, self.actions)
        self._away = None
        if _sum(self.last) != place["shown"]:
            warnings.warn(
                f"{self.game.name} shows something else after the same {len(self.actions)} actions: its chance does "
                "not come from the seed alone, so this run goes on, but not as if it had never stopped",
                RuntimeWarning,
                stacklevel=3,
            )


def _sum(moment: Moment) -> int:
    """A checksum of what is shown."""
    picture = b"" if moment.picture is None else moment.picture.tobytes()
    return zlib.crc32(picture + moment.numbers.tobytes())
