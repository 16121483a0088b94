from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest

from reelrl.content.atari import console_of
from reelrl.content.feeds.atari_labels import PLACES, Place, labelled_shots
from reelrl.errors import ConfigError

pytestmark = pytest.mark.slow

EACH = [(game, name) for game, places in PLACES.items() for name in places]


def moved(console: Any, address: int, byte: int) -> Any:
    """Where the screen differs two console frames after a byte was written."""
    import ale_py

    start = console.cloneSystemState()
    pictures = []
    for value in (None, byte):
        console.restoreSystemState(start)
        if value is not None:
            console.setRAM(address, value)
        pictures.append([(console.act(ale_py.Action.NOOP), console.getScreenRGB())[1] for _ in range(2)])
    console.restoreSystemState(start)
    return [(a != b).any(axis=2) for a, b in zip(*pictures, strict=True)]


@pytest.mark.parametrize(("game", "name"), EACH)
def test_writing_the_byte_moves_something_at_the_place_it_tells(game: str, name: str) -> None:
    place, axis = PLACES[game][name], 0 if name.endswith("y") else 1
    console = console_of(game, 5)
    rng, buttons = np.random.default_rng(5), console.getMinimalActionSet()
    told, seen = [], []
    for step in range(420):
        button = buttons[rng.integers(len(buttons))]
        for _ in range(4):
            console.act(button)
        if console.game_over():
            console.reset_game()
        value = place.read(console.getRAM())
        if step < 60 or step % 12 or math.isnan(value):
            continue
        # A step of the coarse part, or eight pixels.
        byte = int(console.getRAM()[place.address])
        change = moved(console, place.address, (byte + (1 if place.coarse_fine else 8)) % 256)
        for picture in change:
            lines = np.nonzero(picture.any(axis=1 - axis))[0]
            # Other things may answer too when something is hit; the whole screen does when the level changes.
            if lines.size and picture.mean() < 0.1:
                told.append(value)
                seen.append(float(lines.min()))
                break
    assert len(set(told)) >= 5, "the object hardly moved; play longer"
    assert np.corrcoef(told, seen)[0, 1] > 0.95, list(zip(told, seen, strict=True))


def test_a_column_in_coarse_and_fine_steps() -> None:
    memory = np.zeros(128, np.uint8)
    for byte, column in ((0x05, 75), (0x15, 74), (0xF5, 76), (0x85, 83)):
        memory[3] = byte
        assert Place(3, coarse_fine=True).read(memory) == column


def test_what_is_not_shown_has_no_place() -> None:
    memory = np.zeros(128, np.uint8)
    assert math.isnan(PLACES["Breakout"]["ball x"].read(memory))
    memory[101] = 100
    assert PLACES["Breakout"]["ball x"].read(memory) == 0


def test_shots_are_those_of_the_feed_with_labels() -> None:
    first, second = (list(islice(labelled_shots("Pacman", 3), 4)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.places == b.places
        np.testing.assert_array_equal(a.shot.picture, b.shot.picture)
    with pytest.raises(ConfigError, match="Tennis"):
        next(labelled_shots("Tennis", 0))
