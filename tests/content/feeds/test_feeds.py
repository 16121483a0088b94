"""Pictures that go on: the same from the same seed, from any place in them, and told when they end or fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import pytest

from reelrl.content.feeds.kinds import ClipFeed, Position, RenderFeed, open_feed
from reelrl.content.feeds.process import FeedProcess
from reelrl.errors import ConfigError, ContentError
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.feeds.kinds import Feed, Shot

pytestmark = pytest.mark.slow


class Drift(gym.Env[Any, Any]):
    """A dot that random steps move about; an episode ends after 7 of them."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    observation_space = gym.spaces.Discrete(32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, render_mode: str | None = None, broken_at: int = -1, draws: str = "uint8") -> None:
        self.render_mode, self.broken_at, self.draws = render_mode, broken_at, draws
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(32)), 0
        return self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps == self.broken_at:
            raise ZeroDivisionError("the dot fell off")
        self.place = (self.place + int(action) - 1) % 32
        return self.place, 0.0, self.steps == 7, False, {}

    def render(self) -> Any:
        picture = np.zeros((24, 32, 3), self.draws)
        picture[12, self.place] = 255
        return picture


DRIFT = f"{__name__}:Drift"
gym.register("Drift-v0", DRIFT)
gym.register("DriftBroken-v0", DRIFT, kwargs={"broken_at": 4})
gym.register("DriftFloat-v0", DRIFT, kwargs={"draws": "float32"})
HERE = "tests.content.feeds.test_feeds"  # the feed's process imports this file to register them

FEEDS = ["ale:Breakout", "ale:Assault", "gym:Drift-v0", "generated:cuts?frames=40&size=64x48"]


def same(one: Iterator[Shot], two: Iterator[Shot]) -> bool:
    pairs = list(zip(one, two, strict=True))
    assert pairs
    return all(np.array_equal(a.picture, b.picture) and a[1:] == b[1:] for a, b in pairs)


@pytest.mark.parametrize("name", FEEDS)
def test_a_feed_comes_back_to_any_place_whatever_it_showed_before(name: str) -> None:
    whole = list(islice(open_feed(name, 3).shots(), 12))
    feed: Feed = open_feed(name, 3)
    list(islice(feed.shots(Position(0, 20)), 5))
    for place in (0, 1, 5, 10):
        assert same(islice(feed.shots(whole[place].position), 12 - place), iter(whole[place:]))


def test_the_next_place_after_an_episode_is_the_next_episode() -> None:
    shots = list(islice(open_feed("gym:Drift-v0", 0).shots(), 20))
    assert [shot.position for shot in shots[7:10]] == [(0, 7), (1, 0), (1, 1)]
    assert [number for number, shot in enumerate(shots) if shot.cut] == [0, 8, 16]
    assert same(islice(open_feed("gym:Drift-v0", 0).shots(shots[7].position.next()), 12), iter(shots[8:]))


def test_a_game_over_is_a_cut_and_nothing_else_is() -> None:
    shots = list(islice(open_feed("ale:Breakout", 0).shots(), 400))
    starts = [number for number, shot in enumerate(shots) if shot.cut]
    assert starts[0] == 0
    assert 2 <= len(starts) <= 5
    assert all(shots[number].position.step == 0 for number in starts)


def test_episodes_and_seeds_differ() -> None:
    feed = open_feed("ale:Breakout", 0)
    first, second = (next(islice(feed.shots(Position(episode, 0)), 40, None)) for episode in (0, 1))
    other = next(islice(open_feed("ale:Breakout", 1).shots(), 40, None))
    assert not np.array_equal(first.picture, second.picture)
    assert not np.array_equal(first.picture, other.picture)


def test_a_clip_is_cut_where_its_scene_changes() -> None:
    cuts = [shot.position.step for shot in ClipFeed("generated:cuts?frames=90&size=64x48").shots() if shot.cut]
    assert cuts[0] == 0
    assert len(cuts) > 1
    still = [shot.position.step for shot in ClipFeed("generated:pan?frames=30&size=64x48").shots() if shot.cut]
    assert still == [0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ale:Breakot", "unknown Atari game 'Breakot'; did you mean 'Breakout'"),
        ("gym:Nothing-v0", "gym:Nothing-v0 cannot be drawn"),
        ("doom:", "such as ale:Breakout"),
        ("Breakout", "such as ale:Breakout"),
        ("al:Breakout", "did you mean 'ale'"),
    ],
)
def test_a_wrong_name_is_told_by_the_process_before_any_picture(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeedProcess(name)


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ContentError, match=r"draws float32 \(24, 32, 3\); a picture is uint8"):
        RenderFeed("DriftFloat-v0")


def test_a_process_shows_what_the_feed_shows_and_ends_with_it() -> None:
    name = "generated:street?frames=6&size=64x48"
    with FeedProcess(name) as feed:
        assert same(iter(list(feed)), iter(list(open_feed(name).shots())))
    with FeedProcess(name, start=Position(0, 6)) as feed:
        assert list(feed) == []


def test_an_error_in_an_environment_reaches_the_reader(capfd: pytest.CaptureFixture[str]) -> None:
    with FeedProcess(f"gym:{HERE}:DriftBroken-v0") as feed:
        with pytest.raises(ContentError, match=r"DriftBroken-v0 failed with ZeroDivisionError: the dot fell off"):
            list(feed)
        assert feed.received == 4
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_killed_feed_is_told_and_not_waited_for() -> None:
    with FeedProcess("ale:Breakout") as feed:
        assert feed.read() is not None
        os.kill(feed.pid, signal.SIGKILL)
        with pytest.raises(ContentError, match=r"died \(killed by SIGKILL\) after \d+ pictures; resume from the last"):
            list(feed)


def test_a_feed_that_hangs_is_given_up() -> None:
    with FeedProcess("ale:Breakout") as feed:
        feed.deadline_s = 1.0
        os.kill(feed.pid, signal.SIGSTOP)
        with pytest.raises(ContentError, match="gave no picture for 1 s"):
            list(feed)


def test_a_feed_ends_when_its_reader_is_killed() -> None:
    program = (
        "import os, signal\nfrom reelrl.content.feeds.process import FeedProcess\n"
        "feed = FeedProcess('ale:Breakout')\nprint(feed.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == -signal.SIGKILL
    until(lambda: not _runs(int(done.stdout)))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
