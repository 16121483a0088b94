"""A game in a process of its own, which may die or hang without taking the player along.

    with GameProcess("ale:Breakout", seed=0) as game:
        moment = game.begin(episode=0)
        moment = game.act(3)

    parent  ◄── moments ── python -m reelrl.content.games.process FD FD NAME SEED SHOWS MEMORY
            ── actions ──►

`send` and `receive` are the halves of `act`: between them the game plays while the player does something else. Pictures
come by the pipe, or lie in memory that both sides hold (`draw_into`), where the next picture overwrites them.
"""

from __future__ import annotations

import math
import os
import struct
import sys
from math import prod
from mmap import mmap
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.child_process import READY, ChildProcess, answer_errors, send
from reelrl.content.games.kinds import Game, GameFacts, Moment, Shows, open_game
from reelrl.errors import ContentError, InvalidRewardError, InvalidStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Kind, then height and width of the picture, how many numbers, a zero, the reward, whether it is terminated, and
# truncated; picture and numbers follow. Of a game that is ready: its facts.
HEADER = struct.Struct("<cIIIIdBB")
MOMENT = b"m"
# The episode to begin and how many actions to take in it before something is shown; an action; where to draw.
BEGIN, ACT, DRAW = b"b", b"a", b"d"
WORD = struct.Struct("<cQI")


class GameProcess(ChildProcess):
    """A game, played from here."""

    HEADER = HEADER

    def __init__(self, name: str, seed: int = 0, shows: Shows = "pictures", memory: int = -1) -> None:
        """`memory` is the descriptor of what `draw_into` shares."""
        holds = [memory] if memory >= 0 else []
        super().__init__("reelrl.content.games.process", name, [seed, shows, memory], listens=True, holds=holds)
        self.facts = GameFacts(*self._ready[1:5])
        self._place: NDArray[np.uint8] | None = None

    def draw_into(self, place: NDArray[np.uint8], offset: int) -> None:
        """From now on pictures lie in `place`, which begins at this byte of the shared memory."""
        self._place = place
        self._say(WORD.pack(DRAW, offset, 0))

    def begin(self, episode: int, actions: Sequence[int] = ()) -> Moment:
        """The first moment of an episode, or the one after these actions in it."""
        self.send_begin(episode, actions)
        return self.receive()

    def send_begin(self, episode: int, actions: Sequence[int] = ()) -> None:
        self._say(WORD.pack(BEGIN, episode, len(actions)) + np.asarray(actions, "<u4").tobytes())

    def act(self, action: int) -> Moment:
        """The moment after an action."""
        self.send(action)
        return self.receive()

    def send(self, action: int) -> None:
        self._say(WORD.pack(ACT, action, 0))

    def receive(self) -> Moment:
        """The moment after what was sent last."""
        _, height, width, count, _, reward, terminated, truncated = self._header()
        picture = self._place
        if picture is None and height:
            picture = np.empty((height, width, 3), np.uint8)
            self._fill(picture.data.cast("B"))
        numbers = np.empty(count, np.float32)
        if count:
            self._fill(numbers.data.cast("B"))
        self.received += 1
        if not math.isfinite(reward):
            raise InvalidRewardError(
                f"{self.name} gave the reward {reward} at moment {self.received}; rewards are finite: mend the game"
            )
        if not np.isfinite(numbers).all():
            raise InvalidStateError(
                f"{self.name} shows numbers that are not finite at moment {self.received}: {numbers[:8]}; mend the game"
            )
        return Moment(picture, numbers, reward, bool(terminated), bool(truncated))


def main(arguments: list[str]) -> None:
    """Play by orders until there are no more."""
    out, orders, name, seed, shows, memory = arguments

    def work() -> None:
        game = open_game(name, int(seed), shows)  # type: ignore[arg-type]
        _serve(int(out), int(orders), game, int(memory))

    answer_errors(int(out), name, HEADER, work)


def _serve(out: int, orders: int, game: Game, memory: int) -> None:
    send(out, HEADER.pack(READY, *game.facts, 0.0, 0, 0))
    place: NDArray[np.uint8] | None = None
    while (word := _received(orders, WORD.size)) is not None:
        kind, number, count = WORD.unpack(word)
        if kind == DRAW:
            shape = game.facts.height, game.facts.width, 3
            place = np.frombuffer(mmap(memory, 0), np.uint8, prod(shape), number).reshape(shape)
            continue
        if kind == BEGIN:
            # All of them are read before the game goes on: who sends them must not wait for a game that hangs.
            actions = np.frombuffer(_received(orders, 4 * count) or b"", "<u4")
            moment = game.begin(number)
            for action in actions:
                moment = game.act(int(action))
        else:
            moment = game.act(number)
        _show(out, moment, place)


def _show(out: int, moment: Moment, place: NDArray[np.uint8] | None) -> None:
    picture = moment.picture
    height, width = (0, 0) if picture is None else picture.shape[:2]
    if picture is not None and place is not None:
        if picture.shape != place.shape:
            raise ContentError(
                f"a picture of shape {picture.shape} follows one of {place.shape}; "
                "players side by side need pictures of one size"
            )
        place[...] = picture
        picture = None
    send(
        out,
        HEADER.pack(MOMENT, height, width, len(moment.numbers), 0, moment.reward, moment.terminated, moment.truncated),
        b"" if picture is None else np.ascontiguousarray(picture).data,
        moment.numbers.astype(np.float32).tobytes(),
    )


def _received(orders: int, size: int) -> bytes | None:
    """So many bytes; None once nobody holds the other side."""
    data = b""
    while len(data) < size:
        part = os.read(orders, size - len(data))
        if not part:
            return None
        data += part
    return data


if __name__ == "__main__":
    main(sys.argv[1:])
