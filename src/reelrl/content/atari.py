"""Clips of Atari games, played by ale-py (extra `atari`; the games come with it).

Random buttons are pressed, each held for a while, or those that a trained player chooses. Same game, seed and player,
same frames.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from reelrl.content.clip import Clip
from reelrl.errors import ConfigError, MissingExtra
from reelrl.names import HANDS, did_you_mean, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from reelrl.content.frame import Frame
    from reelrl.content.pictures import Picture

CONSOLE_FPS = 60
FRAME_SKIP = 4  # console frames per picture, for players and those who watch them
STICKY = 0.25  # how likely the console misses a new button in a frame and holds the old one
LONGEST_EPISODE = 27_000  # pictures, half an hour of play: some games never end under random buttons
WARM_UP = 180  # title screens and empty starts are not worth encoding
LONGEST_PRESS = 12
# (width, height) of the games that the catalogue lists, so that a list needs no emulator.
GAMES = {
    "Assault": (160, 210),
    "Asteroids": (160, 210),
    "Breakout": (160, 210),
    "Pacman": (160, 250),
    "SpaceInvaders": (160, 210),
}


def atari_clip(
    game: str, *, frames: int = 240, fps: Fraction | int = 60, seed: int = 0, scale: int = 1, player: str = ""
) -> Clip:
    """A clip of a game at its own size, 160 by 210 or more, or `scale` times as large in whole pixels.

    `fps` must divide 60; lower rates leave frames out, as a slow camera would. `player` is the folder of a run of
    `reel train atari` in this game, which plays instead of chance.
    """
    if fps not in (60, 30, 20, 15, 12, 10):
        raise ConfigError(f"fps is {fps}; the console draws 60 a second: choose 60, 30, 20, 15, 12 or 10")
    if not 1 <= scale <= 16:
        raise ConfigError(f"scale is {scale}; choose 1 to 16")
    if not 0 <= seed < 2**31:
        raise ConfigError(f"seed is {seed}; use a whole number from 0 to {2**31 - 1}")
    width, height = GAMES.get(game) or _screen_size(game)
    skip = CONSOLE_FPS // int(fps)
    hand = resolve(HANDS, "run" if player else "random")
    if player:
        hand(game, seed, player)  # what cannot play is refused now
    options = {
        "frames": (frames, 240),
        "fps": (fps, 60),
        "seed": (seed, 0),
        "scale": (scale, 1),
        "player": (player, ""),
    }
    query = "&".join(f"{key}={value}" for key, (value, default) in options.items() if value != default)
    return Clip(
        name=f"atari:{game}?{query}" if query else f"atari:{game}",
        width=width * scale,
        height=height * scale,
        fps=Fraction(fps),
        frame_count=frames,
        source=f"atari:{game}",
        start_reading=partial(_play, game, seed, skip, scale, frames, partial(hand, game, seed, player)),
    )


class RandomHand:
    """Presses random buttons of those that do something, each for a while."""

    def __init__(self, game: str, seed: int, player: str = "") -> None:  # noqa: ARG002
        self._rng = Random(seed)

    def __call__(self, console: Any, began: bool) -> tuple[Any, int]:  # noqa: ARG002
        """A button, and for how many console frames; `began` says that a game has begun since the last one."""
        buttons = console.getMinimalActionSet()
        # random() is the one method whose sequence Python promises to keep.
        return buttons[int(self._rng.random() * len(buttons))], 1 + int(self._rng.random() * LONGEST_PRESS)


def _play(
    game: str, seed: int, skip: int, scale: int, frames: int, new_hand: Callable[[], Any], start: int
) -> Iterator[Frame]:
    from reelrl.content.colour import frame_from_rgb

    console, hand = console_of(game, seed), new_hand()
    pressed, left, began = None, 0, True
    for tick in range(WARM_UP + frames * skip):
        if left == 0:
            pressed, left = hand(console, began)
            began = False
        left -= 1
        console.act(pressed)
        if console.game_over():
            console.reset_game()
            began = True
        shown, off_beat = divmod(tick - WARM_UP, skip)
        if shown >= start and not off_beat:
            yield frame_from_rgb(console.getScreenRGB().repeat(scale, axis=0).repeat(scale, axis=1))


def console_of(game: str, seed: int) -> Any:
    """An emulator with the game loaded; it adds no chance of its own to the buttons pressed."""
    try:
        import ale_py
        from ale_py import roms
    except ImportError as error:
        raise MissingExtra("ale-py", "atari") from error
    title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", game).lower()
    known = roms.get_all_rom_ids()
    if title not in known:
        titles = ["".join(word.capitalize() for word in rom.split("_")) for rom in known]
        raise ConfigError(f"unknown Atari game {game!r}{did_you_mean(game, titles)}")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = ale_py.ALEInterface()
    console.setInt("random_seed", seed)
    console.setFloat("repeat_action_probability", 0.0)
    console.loadROM(roms.get_rom_path(title))
    return console


class StickyConsole:
    """A game in steps of four console frames, in each of which a new button may be missed.

    The missed buttons are drawn here and not by the emulator, and the emulator goes back to one state: an episode then
    depends on nothing before it. Either call of `begin` alone leaves a trace in some game (Assault, Tetris).
    """

    def __init__(self, game: str) -> None:
        self.console = console_of(game, 0)
        self._fresh = self.console.cloneState(include_rng=True)

    def begin(self, rng: np.random.Generator) -> None:
        """Begin an episode whose chance comes from `rng`."""
        self.console.reset_game()
        self.console.restoreState(self._fresh)
        self._rng, self._held = rng, self.console.getMinimalActionSet()[0]

    def press(self, button: Any) -> float:
        """One step with this button; returns the points that it made."""
        points = 0.0
        for missed in self._rng.random(FRAME_SKIP) < STICKY:
            self._held = self._held if missed else button
            points += self.console.act(self._held)
        return points

    @property
    def screen(self) -> Picture:
        picture: Picture = self.console.getScreenRGB()
        return picture

    @property
    def over(self) -> bool:
        return bool(self.console.game_over())


def _screen_size(game: str) -> tuple[int, int]:
    height, width = console_of(game, 0).getScreenDims()
    return width, height
