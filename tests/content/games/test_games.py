"""Games that are played: the same from the same seed and actions, come back to, and told when they fail."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.content.games.kinds import open_game
from reelrl.content.games.play import Play
from reelrl.content.games.process import GameProcess
from reelrl.errors import ConfigError, ContentError, InvalidRewardError, InvalidStateError
from tests.content.games.corridor import HERE, corridor

if TYPE_CHECKING:
    from reelrl.content.games.kinds import Moment, Shows

pytestmark = pytest.mark.slow


def same(one: Moment, two: Moment) -> bool:
    pictures = (
        one.picture is two.picture is None
        if one.picture is None or two.picture is None
        else np.array_equal(one.picture, two.picture)
    )
    return pictures and np.array_equal(one.numbers, two.numbers) and one[2:] == two[2:]


@pytest.mark.parametrize(
    ("name", "shows"), [("ale:Breakout", "pictures"), ("gym:CartPole-v1", "numbers"), (corridor(), "both")]
)
def test_a_process_plays_what_the_game_plays_and_comes_back_to_any_place(name: str, shows: Shows) -> None:
    game = open_game(name, 3, shows)
    actions = [1, 0, 1, 1, 0, 1]
    seen = [game.begin(4), *(game.act(action) for action in actions)]
    with GameProcess(name, 3, shows) as process:
        assert process.facts == game.facts
        assert same(process.begin(0), game.begin(0))
        assert same(process.begin(4), seen[0])
        assert all(same(process.act(action), moment) for action, moment in zip(actions, seen[1:], strict=True))
        assert same(process.begin(4, actions[:3]), seen[3])
        assert same(process.act(actions[3]), seen[4])


def test_episodes_and_seeds_differ_in_what_the_console_misses() -> None:
    with GameProcess("ale:Breakout", 0) as one, GameProcess("ale:Breakout", 1) as two:
        actions = [1] * 3 + [3, 4] * 30
        shown = [one.begin(0, actions), one.begin(1, actions), two.begin(0, actions), one.begin(0, actions)]
    assert same(shown[0], shown[3])
    assert not same(shown[0], shown[1])
    assert not same(shown[0], shown[2])


def test_atari_has_all_buttons_and_pays_in_points() -> None:
    game = open_game("ale:Breakout")
    assert game.facts.actions == 18
    rng = np.random.default_rng(0)
    earned, moment = 0.0, game.begin(0)
    while not moment.over:
        moment = game.act(int(rng.choice([1, 3, 4])))
        earned += moment.reward
    assert moment.terminated
    assert earned == int(earned) >= 0


def test_a_limit_truncates_and_a_goal_terminates() -> None:
    with GameProcess(corridor(), 0, "numbers") as game:
        game.begin(0)
        ends = [game.act(0) for _ in range(20)]
        assert [(moment.terminated, moment.truncated) for moment in ends[18:]] == [(False, False), (False, True)]
        game.begin(0)
        last = game.act(1)
        while not last.over:
            last = game.act(1)
        assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)


def test_play_goes_from_episode_to_episode_and_on_from_a_place() -> None:
    with GameProcess(corridor(), 0, "numbers") as game, GameProcess(corridor(), 0, "numbers") as other:
        play, resumed = Play(game), Play(other)
        began = [play.next(1)[1] for _ in range(17)]
        assert began[0]
        assert 3 < sum(began) < 7
        place = play.place()
        resumed.go_to(place, play.actions)
        assert resumed.place() == place
        for _ in range(12):
            (mine, mine_began), (theirs, theirs_began) = play.next(1), resumed.next(1)
            assert same(mine, theirs)
            assert mine_began == theirs_began
            assert play.place() == resumed.place()


def test_a_game_that_does_not_repeat_itself_is_told_and_played_on() -> None:
    name = corridor("unseeded")
    with GameProcess(name, 0, "numbers") as game, GameProcess(name, 0, "numbers") as other:
        play, resumed = Play(game), Play(other)
        play.next(0)
        resumed.go_to(play.place(), play.actions)
        with pytest.warns(RuntimeWarning, match="shows something else after the same 0 actions"):
            resumed.next(0)
        resumed.next(0)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raises", ContentError, "failed with ZeroDivisionError: the floor gave way"),
        ("dies", ContentError, r"died \(exit status 3\) after 3 pictures"),
        ("nan", InvalidRewardError, "gave the reward nan at moment 4; rewards are finite"),
        ("lost", InvalidStateError, "numbers that are not finite at moment 4"),
        ("actions", ContentError, r"has the actions Discrete\(3\) after Discrete\(2\)"),
    ],
)
def test_what_goes_wrong_in_a_game_is_told_and_leaves_the_place_as_it_was(
    fault: str, error: type[Exception], message: str
) -> None:
    with GameProcess(corridor(fault), 0, "numbers") as game:
        play = Play(game)
        steps = 0
        with pytest.raises(error, match=message):  # noqa: PT012
            while steps < 9:
                before = play.place(), list(play.actions)
                play.next(0)
                steps += 1
        assert (play.place(), play.actions) == before
        assert steps == (4 if fault == "actions" else 3)


def test_a_game_that_hangs_is_given_up_and_one_that_is_killed_is_told() -> None:
    with GameProcess(corridor("hangs"), 0, "numbers") as game:
        game.deadline_s = 1.0
        game.begin(0)
        with pytest.raises(ContentError, match="gave no picture for 1 s, after 1; it hangs or is too slow"):
            game.begin(0, [0, 0, 0])
    with GameProcess("ale:Breakout") as game:
        game.begin(0)
        os.kill(game.pid, signal.SIGKILL)
        with pytest.raises(ContentError, match=r"died \(killed by SIGKILL\) after 1 pictures"):
            game.begin(1)


@pytest.mark.parametrize(
    ("name", "shows", "message"),
    [
        ("ale:Breakot", "pictures", "unknown Atari game 'Breakot'; did you mean 'Breakout'"),
        ("ale:Breakout", "numbers", "shows pictures and no numbers; give it --observation pixels"),
        ("gym:Nothing-v0", "pictures", "gym:Nothing-v0 cannot be played"),
        ("file:film.mkv", "pictures", "unknown word 'file'; choose from ale, gym"),
        ("Breakout", "pictures", "such as ale:Breakout"),
        (f"gym:{HERE}:CorridorUnseen-v0", "pictures", "draws no pictures .*--observation numbers"),
        (corridor("continuous"), "numbers", r"has the actions Box.*a player chooses among a few: Discrete"),
    ],
)
def test_what_cannot_be_played_is_told_before_any_moment(name: str, shows: Shows, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GameProcess(name, 0, shows)
