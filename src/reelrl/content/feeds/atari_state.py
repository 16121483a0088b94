"""The state of Atari games by categories, read from the console's memory: what a linear probe of pictures is asked for.

The categories, and the addresses of most labels, are those of AtariARI (Anand et al. 2019), whose table is public; the
choice of games and labels is ours. A label is one byte of the memory and is asked for as a class, so its coding does
not matter. Unlike the places of `atari_labels` most were not checked by writing to them.

    agent     where the player is                     score   score, clock, lives and other displays
    small     where a small object is: ball, missile  misc    what else the picture shows: directions, counts, bits
    other     where other objects are
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from reelrl.content.feeds.kinds import AtariFeed, Shot
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

Category = Literal["agent", "small", "other", "score", "misc"]
CATEGORIES: tuple[Category, ...] = ("agent", "small", "other", "score", "misc")

Addresses = dict[str, int]

STATE: dict[str, dict[Category, Addresses]] = {
    "Asteroids": {
        "agent": {"ship x": 73, "ship y": 74},
        "small": {"missile x": 83, "missile y": 86},
        "other": {"rock 1 x": 21, "rock 1 y": 3, "rock 2 x": 22, "rock 2 y": 4, "rock 3 x": 23, "rock 3 y": 5},
        "score": {"score high": 61, "score low": 62, "lives": 60},
    },
    "Bowling": {
        "agent": {"player x": 29, "player y": 40},
        "small": {"ball x": 30, "ball y": 41},
        "score": {"score": 33, "frame": 36},
        "misc": {f"pin {number}": 57 + number for number in range(10)},
    },
    "Boxing": {
        "agent": {"player x": 32, "player y": 34},
        "other": {"enemy x": 33, "enemy y": 35},
        "score": {"clock": 17, "own score": 18, "enemy score": 19},
    },
    "Breakout": {
        "agent": {"paddle x": 72},
        "small": {"ball x": 99, "ball y": 101},
        "score": {"score": 84},
        "misc": {"bricks hit": 77, **{f"bricks {number}": number for number in range(0, 30, 6)}},
    },
    "DemonAttack": {
        "agent": {"cannon x": 22},
        "small": {"missile y": 21},
        "other": {f"demon {n} {axis}": at + n for axis, at in (("x", 16), ("y", 68)) for n in (1, 2, 3)},
        "score": {"lives": 114},
        "misc": {"level": 62},
    },
    "Freeway": {
        "agent": {"chicken y": 14},
        "other": {f"car {number} x": 108 + number for number in range(10)},
        "score": {"score": 103},
    },
    "Frostbite": {
        "agent": {"player x": 102, "player y": 100},
        "other": {f"floe {number} x": 31 + number for number in range(4)} | {"bear x": 104},
        "score": {"lives": 76, "score": 73},
        "misc": {"igloo": 77, "direction": 4},
    },
    "MsPacman": {
        "agent": {"player x": 10, "player y": 16},
        "other": {f"ghost {number} {axis}": at + number for axis, at in (("x", 6), ("y", 12)) for number in range(4)},
        "score": {"score": 120, "lives": 123},
        "misc": {"dots eaten": 119, "direction": 56},
    },
    "Pong": {
        "agent": {"own paddle y": 51},
        "small": {"ball x": 49, "ball y": 54},
        "other": {"enemy paddle y": 50},
        "score": {"own score": 14, "enemy score": 13},
    },
    "Qbert": {"agent": {"player x": 43, "player y": 67, "column": 35}, "other": {"red x": 69, "green x": 105}},
    "Seaquest": {
        "agent": {"player x": 70, "player y": 97},
        "small": {"missile x": 103},
        "other": {f"enemy {number} x": 30 + number for number in range(4)},
        "score": {"oxygen": 102, "score": 58, "lives": 59, "divers": 62},
        "misc": {"direction": 86},
    },
    "SpaceInvaders": {
        "agent": {"cannon x": 28},
        "small": {"missile y": 9},
        "other": {"invaders x": 26, "invaders y": 24},
        "score": {"score": 104, "lives": 73},
        "misc": {"invaders left": 17},
    },
}


class StateLabel(NamedTuple):
    """A byte of the memory with a name and a category."""

    name: str
    category: Category
    address: int


def state_labels(game: str) -> list[StateLabel]:
    if game not in STATE:
        raise ConfigError(f"no labels are known for {game!r}{did_you_mean(game, list(STATE))}")
    return [
        StateLabel(name, category, address)
        for category, addresses in STATE[game].items()
        for name, address in addresses.items()
    ]


class StateShot(NamedTuple):
    """A picture, and the bytes of `state_labels` in their order."""

    shot: Shot
    state: NDArray[np.uint8]


def state_shots(game: str, seed: int) -> Iterator[StateShot]:
    """The pictures of the feed "ale:GAME", each with its state."""
    addresses = [label.address for label in state_labels(game)]
    feed = AtariFeed(game, seed)
    for shot in feed.shots():
        yield StateShot(shot, feed.memory()[addresses].copy())
