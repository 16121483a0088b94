"""Where things are in Atari games, read from the console's memory beside each picture.

Each address was checked by writing to it: the object that it names then moves on the screen, to where it should
(`tests/content/feeds/test_atari_labels.py` does so again). Objects that flicker, and those whose place is spread over
several bytes, are left out: a picture does not show the one, and no single number tells the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reelrl.content.feeds.kinds import AtariFeed, Shot
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Place:
    """One coordinate of one object.

    coarse_fine  the low half of the byte counts steps of 15 pixels, the high half single pixels to the left, signed:
                 the form in which the video chip wants a column
    shown_when   address, least, most: the object is on the screen while that byte lies in between
    """

    address: int
    coarse_fine: bool = False
    shown_when: tuple[int, int, int] | None = None

    def read(self, memory: NDArray[np.uint8]) -> float:
        """The coordinate in pixels up to a constant and a scale; NaN while the object is not to be seen."""
        if self.shown_when:
            address, least, most = self.shown_when
            if not least <= memory[address] <= most:
                return float("nan")
        byte = int(memory[self.address])
        if not self.coarse_fine:
            return float(byte)
        fine = byte >> 4
        return float(15 * (byte & 15) - (fine - 16 if fine >= 8 else fine))


_IN_PLAY = (101, 1, 179)  # below that the ball is behind the paddle or lost

PLACES: dict[str, dict[str, Place]] = {
    "Breakout": {
        "ball x": Place(99, shown_when=_IN_PLAY),
        "ball y": Place(101, shown_when=_IN_PLAY),
        "paddle x": Place(72),
    },
    "Assault": {"cannon x": Place(16, coarse_fine=True), "mother ship x": Place(68, coarse_fine=True)},
    "SpaceInvaders": {"cannon x": Place(28), "invaders x": Place(26)},
    "Pacman": {"pacman x": Place(49), "pacman y": Place(54)},
    "Asteroids": {"ship y": Place(74, shown_when=(74, 0, 199))},
}


class LabelledShot(NamedTuple):
    """A picture, and every place of `PLACES` in its order."""

    shot: Shot
    places: tuple[float, ...]


def labelled_shots(game: str, seed: int) -> Iterator[LabelledShot]:
    """The pictures of the feed "ale:GAME", with where things are in them."""
    if game not in PLACES:
        raise ConfigError(f"no addresses are known for {game!r}; there are some for {', '.join(PLACES)}")
    feed = AtariFeed(game, seed)
    for shot in feed.shots():
        memory = feed.memory()
        yield LabelledShot(shot, tuple(place.read(memory) for place in PLACES[game].values()))
