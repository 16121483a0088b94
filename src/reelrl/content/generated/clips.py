"""Clips that the package makes itself, the same to the byte for the same recipe on every machine.

| style  | what is in it                                          | what it asks of an encoder                       |
|--------|--------------------------------------------------------|--------------------------------------------------|
| street | shops, cars, people, a swaying camera                  | motion of many objects over texture              |
| pan    | land from the air, flying and zooming, cloud shadows   | global motion, detail everywhere                 |
| water  | waves, a boat, a shore                                 | motion that no block vector describes            |
| talk   | head and shoulders before a shelf                      | a still picture with one part that matters       |
| screen | windows of text that scroll and move                   | sharp edges, long rests, sudden jumps            |
| noise  | the street at night, hand-held, coarse grain           | to spend nothing on what cannot be predicted     |
| cuts   | shots of street, noise, pan and screen, with hard cuts | scene changes                                    |
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from reelrl.content.clip import Clip
from reelrl.content.frame import Frame, check_size
from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reelrl.content.generated.scenes import Scene

STYLES = ("street", "pan", "water", "talk", "screen", "noise", "cuts")
SMALLEST = 32
LARGEST_SEED = 2**31 - 1


def generated_clip(
    style: str,
    *,
    size: tuple[int, int] = (352, 288),
    frames: int = 120,
    fps: Fraction | int = 30,
    seed: int = 0,
) -> Clip:
    """A clip of one of the `STYLES`; frames are drawn while it is read."""
    if style not in STYLES:
        raise ConfigError(f"unknown style {style!r} of generated clip{did_you_mean(style, STYLES)}")
    width, height = size
    check_size(width, height)
    if min(size) < SMALLEST:
        raise ConfigError(f"generated clips need at least {SMALLEST}x{SMALLEST} pixels; {width}x{height} was asked for")
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed is {seed}; use a whole number from 0 to {LARGEST_SEED}")
    options = {
        "size": (f"{width}x{height}", "352x288"),
        "frames": (frames, 120),
        "fps": (Fraction(fps), 30),
        "seed": (seed, 0),
    }
    query = "&".join(f"{key}={value}" for key, (value, default) in options.items() if value != default)
    return Clip(
        name=f"generated:{style}?{query}" if query else f"generated:{style}",
        width=width,
        height=height,
        fps=Fraction(fps),
        frame_count=frames,
        source=f"generated:{style}",
        licence_class="open",
        start_reading=partial(_draw, style, width, height, seed, frames),
    )


def _draw(style: str, width: int, height: int, seed: int, frames: int, start: int) -> Iterator[Frame]:
    from reelrl.content.generated.canvas import develop

    scene = _scene(style, width, height, seed)
    canvas = np.empty((height, width, 3), np.uint8)
    for t in range(start, frames):
        light = scene.paint(canvas, t)
        frame = Frame.empty(width, height)
        develop(canvas, frame.data, light, scene.grain, seed * 7919, t)
        yield frame


@lru_cache(maxsize=4)
def _scene(style: str, width: int, height: int, seed: int) -> Scene:
    # numba takes a quarter of a second to import: only those who draw pay.
    from reelrl.content.generated import scenes

    makers: dict[str, Callable[[int, int, int], Scene]] = {
        "street": scenes.Street,
        "pan": scenes.Terrain,
        "water": scenes.Water,
        "talk": scenes.Talk,
        "screen": scenes.Desktop,
        "noise": scenes.Night,
        "cuts": scenes.Cuts,
    }
    return makers[style](width, height, seed)
