"""Clips of Atari games, played by ale-py (extra `atari`; the games come with it).

A player presses random buttons, each held for a while. Same game and seed, same frames.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from reelrl.content.clip import Clip
from reelrl.errors import ConfigError, MissingExtra
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.frame import Frame

CONSOLE_FPS = 60
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


def atari_clip(game: str, *, frames: int = 240, fps: Fraction | int = 60, seed: int = 0, scale: int = 1) -> Clip:
    """A clip of a game at its own size, 160 by 210 or more, or `scale` times as large in whole pixels.

    `fps` must divide 60; lower rates leave frames out, as a slow camera would.
    """
    if fps not in (60, 30, 20, 15, 12, 10):
        raise ConfigError(f"fps is {fps}; the console draws 60 a second: choose 60, 30, 20, 15, 12 or 10")
    if not 1 <= scale <= 16:
        raise ConfigError(f"scale is {scale}; choose 1 to 16")
    if not 0 <= seed < 2**31:
        raise ConfigError(f"seed is {seed}; use a whole number from 0 to {2**31 - 1}")
    width, height = GAMES.get(game) or _screen_size(game)
    skip = CONSOLE_FPS // int(fps)
    options = {"frames": (frames, 240), "fps": (fps, 60), "seed": (seed, 0), "scale": (scale, 1)}
    query = "&".join(f"{key}={value}" for key, (value, default) in options.items() if value != default)
    return Clip(
        name=f"atari:{game}?{query}" if query else f"atari:{game}",
        width=width * scale,
        height=height * scale,
        fps=Fraction(fps),
        frame_count=frames,
        source=f"atari:{game}",
        start_reading=partial(_play, game, seed, skip, scale, frames),
    )


def _play(game: str, seed: int, skip: int, scale: int, frames: int, start: int) -> Iterator[Frame]:
    from reelrl.content.colour import frame_from_rgb

    console = console_of(game, seed)
    buttons = console.getMinimalActionSet()
    rng = Random(seed)
    pressed, left = buttons[0], 0
    for tick in range(WARM_UP + frames * skip):
        if left == 0:
            # random() is the one method whose sequence Python promises to keep.
            pressed, left = buttons[int(rng.random() * len(buttons))], 1 + int(rng.random() * LONGEST_PRESS)
        left -= 1
        console.act(pressed)
        if console.game_over():
            console.reset_game()
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


def _screen_size(game: str) -> tuple[int, int]:
    height, width = console_of(game, 0).getScreenDims()
    return width, height
