"""Pictures that go on and on, for learners that watch: a game played at random, a rendered environment, a clip.

    feed = open_feed("ale:Breakout", seed=0)
    for shot in feed.shots(): ...                        # from the beginning
    for shot in feed.shots(shot.position.next()): ...    # goes on, to the same bytes

Where a feed stands is two numbers, the episode and the picture in it. The chance of an episode comes from the seed and
the episode's own number, so coming back to a place replays one episode at most.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from reelrl import seeding
from reelrl.content.atari import LONGEST_EPISODE, StickyConsole
from reelrl.content.sources import open_clip
from reelrl.errors import ConfigError, ContentError
from reelrl.names import FEEDS, RECIPES, did_you_mean, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from reelrl.content.pictures import Picture

CUT = 40.0  # mean difference of 8-bit pictures above which they belong to two scenes


class Position(NamedTuple):
    """The place of a picture in a feed, from (0, 0)."""

    episode: int = 0
    step: int = 0

    def next(self) -> Position:
        return Position(self.episode, self.step + 1)


START = Position()


class Shot(NamedTuple):
    """One picture [height, width, 3] in RGB; `cut` where it does not continue the one before."""

    picture: Picture
    cut: bool
    position: Position


class Feed(Protocol):
    """Made of what stands behind the colon and a seed."""

    def __init__(self, subject: str, seed: int) -> None: ...

    def shots(self, start: Position = START) -> Iterator[Shot]:
        """The pictures from `start`; one behind an episode's end is the next episode's first."""
        ...


def open_feed(name: str, seed: int = 0) -> Feed:
    """The feed that a name like "ale:Breakout", "gym:ID", "doom:nine_rooms", "file:PATH" or "clip:NAME" stands for."""
    scheme, _, subject = name.partition(":")
    if scheme in RECIPES and subject:
        return ClipFeed(name, seed)
    if not subject:
        raise ConfigError(f"cannot watch {name!r}: write what it is, a colon, and which one, such as ale:Breakout")
    if scheme not in FEEDS:
        raise ConfigError(f"cannot watch {name!r}: unknown word {scheme!r}{did_you_mean(scheme, [*FEEDS, *RECIPES])}")
    feed: Feed = resolve(FEEDS, scheme)(subject, seed)
    return feed


class AtariFeed:
    """An Atari game under random buttons, four console frames to a picture."""

    def __init__(self, subject: str, seed: int = 0) -> None:
        self.game, self.seed = subject, seed
        self._game = StickyConsole(subject)

    def shots(self, start: Position = START) -> Iterator[Shot]:
        return episodes(self._play, start)

    def memory(self) -> NDArray[np.uint8]:
        """The console's 128 bytes, as they are at the last picture."""
        held: NDArray[np.uint8] = self._game.console.getRAM()
        return held

    def _play(self, episode: int) -> Iterator[Picture]:
        game, buttons = self._game, self._game.console.getMinimalActionSet()
        rng = seeding.stream(self.seed, "feed", self.game, episode)
        game.begin(rng)
        for _ in range(LONGEST_EPISODE):
            game.press(buttons[int(rng.integers(len(buttons)))])
            yield game.screen
            if game.over:
                return


class RenderFeed:
    """What a Gymnasium environment draws while random actions are taken in it."""

    def __init__(self, subject: str, seed: int = 0) -> None:
        import gymnasium as gym
        from gymnasium.error import Error

        self.name, self.seed = subject, seed
        try:
            self._env: Any = gym.make(subject, render_mode="rgb_array", disable_env_checker=True)
            next(self._play(0))  # what cannot be drawn is refused at once
        except (Error, ImportError, TypeError) as error:
            raise ConfigError(f"gym:{subject} cannot be drawn: {error}") from error

    def shots(self, start: Position = START) -> Iterator[Shot]:
        return episodes(self._play, start)

    def _play(self, episode: int) -> Iterator[Picture]:
        seed = seeding.seed_for(self.seed, "feed", self.name, episode)
        self._env.reset(seed=seed)
        self._env.action_space.seed(seed)
        yield drawn(self._env, self.name)
        for _ in range(LONGEST_EPISODE):
            _, _, terminated, truncated, _ = self._env.step(self._env.action_space.sample())
            yield drawn(self._env, self.name)
            if terminated or truncated:
                return


class ClipFeed:
    """The frames of a clip, once. A scene that ends in the clip is a cut."""

    def __init__(self, subject: str, seed: int = 0) -> None:  # noqa: ARG002  a clip has no chance
        self.clip = open_clip(subject)

    def shots(self, start: Position = START) -> Iterator[Shot]:
        from reelrl.content.pictures import rgb

        if start.episode or start.step >= self.clip.frame_count:
            return
        before: Picture | None = None
        first = max(start.step - 1, 0)  # the picture before shows whether `start` is a cut
        for step, frame in enumerate(self.clip.frames(first), first):
            picture = rgb(frame)
            if step >= start.step:
                yield Shot(picture, before is None or _is_cut(before, picture), Position(0, step))
            before = picture


class FileFeed(ClipFeed):
    """The frames of a video file, once."""

    def __init__(self, subject: str, seed: int = 0) -> None:
        path = Path(subject).expanduser()
        if not path.exists():
            raise ContentError(f"file:{subject}: there is no such file; check the path")
        super().__init__(str(path), seed)


def episodes(play: Callable[[int], Iterator[Picture]], start: Position) -> Iterator[Shot]:
    """The shots from `start` of a feed whose episodes begin anew at `play(number)`, without end."""
    for episode in count(start.episode):
        skipped = start.step if episode == start.episode else 0
        for step, picture in enumerate(play(episode)):
            if step >= skipped:
                yield Shot(picture, step == 0, Position(episode, step))


def drawn(env: Any, name: str) -> Picture:
    """What a Gymnasium environment draws, if that is a picture."""
    picture = env.render()
    if not (isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3):
        kind = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise ContentError(f"gym:{name} draws {kind}; a picture is uint8, (height, width, 3)")
    if picture.shape[2] != 3:
        raise ContentError(f"gym:{name} draws pictures of shape {picture.shape}; a picture has 3 colours")
    return picture


def _is_cut(before: Picture, after: Picture) -> bool:
    # Every fourth pixel is enough to tell scenes apart.
    difference = np.abs(before[::4, ::4].astype(np.int16) - after[::4, ::4])
    return float(difference.mean()) > CUT
