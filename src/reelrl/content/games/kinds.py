"""What can be played, one action at a time: an Atari game, a Gymnasium environment with discrete actions.

    game = open_game("ale:Breakout", seed=0)
    moment = game.begin(episode=0)
    while not moment.over:
        moment = game.act(3)

The chance of an episode comes from the seed and the episode's own number, so the same actions lead to the same place.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from reelrl import seeding
from reelrl.content.atari import LONGEST_EPISODE, StickyConsole
from reelrl.content.feeds.kinds import drawn
from reelrl.errors import ConfigError, ContentError
from reelrl.names import PLAYED, did_you_mean, resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.pictures import Picture

Shows = Literal["pictures", "numbers", "both"]
"""What a player is shown: what the game draws, the environment's own observation as one vector, or both."""

_NOTHING = np.zeros(0, np.float32)


class Moment(NamedTuple):
    """What a player sees after an action, and what it earned; a new episode begins with neither reward nor end."""

    picture: Picture | None
    """RGB, (height, width, 3); None where numbers are shown."""
    numbers: NDArray[np.float32]
    reward: float = 0.0
    terminated: bool = False
    """The game is over: nothing can be earned after this."""
    truncated: bool = False
    """The episode ends here, though the game could go on."""

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated


class GameFacts(NamedTuple):
    """What is known of a game before it is played: how many actions there are, and what it shows."""

    actions: int
    numbers: int
    height: int = 0
    width: int = 0


class Game(Protocol):
    """Made of what stands behind the colon, a seed, and what to show; `facts` hold for as long as it is played."""

    facts: GameFacts

    def __init__(self, subject: str, seed: int, shows: Shows) -> None: ...

    def begin(self, episode: int) -> Moment:
        """Begin the episode of this number."""
        ...

    def act(self, action: int) -> Moment:
        """Take one of the actions, counted from 0."""
        ...


def open_game(name: str, seed: int = 0, shows: Shows = "pictures") -> Game:
    """The game that a name like "ale:Breakout" or "gym:CartPole-v1" stands for."""
    scheme, _, subject = name.partition(":")
    if not subject:
        raise ConfigError(f"cannot play {name!r}: write what it is, a colon, and which one, such as ale:Breakout")
    if scheme not in PLAYED:
        raise ConfigError(f"cannot play {name!r}: unknown word {scheme!r}{did_you_mean(scheme, PLAYED)}")
    game: Game = resolve(PLAYED, scheme)(subject, seed, shows)
    return game


class AtariGame:
    """An Atari game with all 18 buttons, four console frames to a picture, and buttons that are sometimes missed."""

    def __init__(self, subject: str, seed: int = 0, shows: Shows = "pictures") -> None:
        if shows != "pictures":
            raise ConfigError(f"ale:{subject} shows pictures and no numbers; give it --observation pixels")
        self.name, self.seed = subject, seed
        self._game = StickyConsole(subject)
        self._buttons = self._game.console.getLegalActionSet()
        self._steps = 0
        self.facts = GameFacts(len(self._buttons), 0, *self._game.console.getScreenDims())

    def begin(self, episode: int) -> Moment:
        self._game.begin(seeding.stream(self.seed, "game", self.name, episode))
        self._steps = 0
        return Moment(self._game.screen, _NOTHING)

    def act(self, action: int) -> Moment:
        points = self._game.press(self._buttons[action])
        self._steps += 1
        over = self._game.over
        return Moment(self._game.screen, _NOTHING, points, over, not over and self._steps >= LONGEST_EPISODE)


class GymGame:
    """A Gymnasium environment with a fixed number of actions: what it draws, or its own observation as a vector."""

    def __init__(self, subject: str, seed: int = 0, shows: Shows = "pictures") -> None:
        self.name, self.seed, self._shows = subject, seed, shows
        self._env = self._made(subject, shows)
        self._space = self._env.action_space
        self._steps = 0
        actions, numbers = self._number_of_actions(), self._number_of_numbers()
        first = self.begin(0).picture  # what cannot be drawn is refused at once
        self.facts = GameFacts(actions, numbers, *(first.shape[:2] if first is not None else ()))

    def begin(self, episode: int) -> Moment:
        observation, _ = self._env.reset(seed=seeding.seed_for(self.seed, "game", self.name, episode))
        self._steps = 0
        return Moment(*self._shown(observation))

    def act(self, action: int) -> Moment:
        if self._env.action_space != self._space:
            raise ContentError(
                f"gym:{self.name} has the actions {self._env.action_space} after {self._space}; "
                "a player learns one set of actions: make them the same in all states"
            )
        observation, reward, terminated, truncated, _ = self._env.step(int(self._space.start) + action)
        self._steps += 1
        ends = bool(truncated) or self._steps >= LONGEST_EPISODE
        return Moment(*self._shown(observation), float(reward), bool(terminated), not terminated and ends)

    def _made(self, subject: str, shows: Shows) -> Any:
        import gymnasium as gym
        from gymnasium.error import Error

        mode = None if shows == "numbers" else "rgb_array"
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*render_mode")  # refused below, in one line
                env: Any = gym.make(subject, render_mode=mode, disable_env_checker=True)
        except (Error, ImportError, TypeError) as error:
            raise ConfigError(f"gym:{subject} cannot be played: {error}") from error
        if mode and mode not in env.metadata.get("render_modes", ()):
            raise ConfigError(
                f"gym:{subject} draws no pictures (render modes {env.metadata.get('render_modes')}); "
                "let the player see its numbers: --observation numbers"
            )
        return env

    def _number_of_actions(self) -> int:
        from gymnasium.spaces import Discrete

        if not isinstance(self._space, Discrete):
            raise ConfigError(f"gym:{self.name} has the actions {self._space}; a player chooses among a few: Discrete")
        return int(self._space.n)

    def _number_of_numbers(self) -> int:
        from gymnasium.spaces.utils import flatdim

        if self._shows == "pictures":
            return 0
        try:
            return int(flatdim(self._env.observation_space))
        except (ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"gym:{self.name} shows {self._env.observation_space}, which is no vector ({error}); "
                "let the player see pictures: --observation pixels"
            ) from error

    def _shown(self, observation: Any) -> tuple[Picture | None, NDArray[np.float32]]:
        from gymnasium.spaces.utils import flatten

        picture = None if self._shows == "numbers" else drawn(self._env, self.name)
        if self._shows == "pictures":
            return picture, _NOTHING
        return picture, np.asarray(flatten(self._env.observation_space, observation), np.float32).ravel()
