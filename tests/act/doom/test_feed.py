"""Doom as a feed of pictures."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from reelrl.content.feeds.kinds import Position, open_feed
from reelrl.content.feeds.process import FeedProcess
from reelrl.errors import ReelError

pytestmark = pytest.mark.slow


def test_a_game_is_shown_and_can_be_come_back_to_to_the_same_bytes() -> None:
    shots = list(islice(open_feed("doom:nine_rooms", seed=4).shots(), 12))
    assert shots[0].picture.shape == (240, 320, 3)
    assert [shot.cut for shot in shots] == [True] + [False] * 11
    again = next(open_feed("doom:nine_rooms", seed=4).shots(Position(0, 11)))
    assert np.array_equal(again.picture, shots[11].picture)
    assert not np.array_equal(shots[0].picture, shots[11].picture)


def test_a_feed_in_a_process_of_its_own_tells_what_is_wrong() -> None:
    with FeedProcess("doom:basic") as feed:
        shot = feed.read()
    assert shot is not None
    assert shot.picture.any()
    with pytest.raises(ReelError, match=r"no scenario 'basix'.*did you mean 'basic'"):
        FeedProcess("doom:basix")
