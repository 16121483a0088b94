"""Games side by side: each shows what it shows alone, and all pictures lie in one memory."""

from __future__ import annotations

import numpy as np
import pytest

from reelrl.content.games.kinds import open_game
from reelrl.content.games.row import GameRow
from reelrl.errors import ConfigError, ContentError
from tests.content.games.corridor import corridor

pytestmark = pytest.mark.slow
GAMES = [("ale:Breakout", 0), ("ale:Breakout", 1), ("ale:Pacman", 0)]


def test_each_game_shows_what_it_shows_alone_and_pictures_of_one_size_lie_together() -> None:
    alone = [open_game(*game) for game in GAMES]
    rng = np.random.default_rng(0)
    with GameRow(GAMES) as row:
        assert [group.shape for group in row.pictures] == [(2, 210, 160, 3), (1, 250, 160, 3)]
        for step in range(12):
            actions = rng.integers(18, size=3).tolist()
            moments, began = row.next(actions)
            expected = [
                game.begin(0) if step == 0 else game.act(action) for game, action in zip(alone, actions, strict=True)
            ]
            assert began == [step == 0] * 3
            assert [moment[2:] for moment in moments] == [moment[2:] for moment in expected]
            places = [picture for group in row.pictures for picture in group]
            drawn = [moment.picture for moment in expected if moment.picture is not None]
            assert all(np.array_equal(place, picture) for place, picture in zip(places, drawn, strict=True))


def test_a_game_that_dies_or_cannot_be_played_ends_the_row_in_one_line() -> None:
    dead = pytest.raises(ContentError, match=r"died \(exit status 3\) after 3 pictures")
    with GameRow([(corridor(), 0), (corridor("dies"), 0)], "numbers") as row, dead:
        for _ in range(9):
            row.next([0, 0])
    with pytest.raises(ConfigError, match="did you mean 'Breakout'"):
        GameRow([("ale:Breakout", 0), ("ale:Breakot", 0)])
