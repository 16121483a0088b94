"""Clips that live coding is made on and judged on: steady ones, scene cuts, screens, a shaking camera.

Sources of one side never occur on the other. A clip is written as a recipe, a name of the catalogue, or of both:

    bbb_480x270[45:145]                   frames 45 to 144
    shaken(asl_320x240)                   through a hand-held camera
    flickering(atari:Gravitar)            every other picture black, as consoles show what they cannot draw at once
    asl_320x240[0:40]+generated:talk      one after the other, in the size and at the rate of the first
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import cv2
import numpy as np

from reelrl.content.clip import Clip, concatenate
from reelrl.content.frame import Frame
from reelrl.content.scaling import scaled_clip
from reelrl.content.sources import open_clip
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SMALL = "size=320x180&frames=100"
_SLIDES = "+".join(
    f"generated:screen?size=320x180&frames={frames}&seed={seed}" for frames, seed in ((25, 22), (40, 23), (30, 24))
)
_GAMES = ("SpaceInvaders", "Pong", "Gravitar", "MsPacman", "Riverraid", "Centipede", "Phoenix", "Breakout")

DEVELOPMENT: dict[str, tuple[str, ...]] = {
    "steady": (
        f"generated:street?{_SMALL}&seed=11",
        f"generated:pan?{_SMALL}&seed=12",
        f"generated:noise?{_SMALL}&seed=13",
        "carphone_qcif",
        "bloom_480x270[0:100]",
        "drive_640x360",
    ),
    "cuts": (
        f"generated:cuts?{_SMALL}&seed=14",
        f"generated:cuts?{_SMALL}&seed=15",
        "akiyo_coastguard_cif",
        "bikes_320x136",
        "carphone_qcif[0:30]+akiyo_coastguard_cif[25:42]+carphone_qcif[60:110]",
    ),
    "screen": (
        *(f"generated:screen?{_SMALL}&seed={seed}" for seed in (16, 17, 18)),
        "generated:screen?size=544x400&frames=100&seed=21",
        _SLIDES,
        *(f"atari:{game}?frames=150" for game in _GAMES),
        "flickering(atari:Gravitar?frames=150)",
        "flickering(atari:Centipede?frames=150)",
        "atari:Pong?frames=25+generated:screen?size=320x180&frames=75&seed=25",
        "atari:Boxing?frames=20+generated:street?size=320x180&frames=60&seed=26",
    ),
    "shake": (
        f"shaken(generated:street?{_SMALL}&seed=19)",
        f"shaken(generated:pan?{_SMALL}&seed=20)",
        "shaken(carphone_qcif)",
        "shaken(bikes_320x136[47:107])",
    ),
}
"""Everything was made on these: rules, constants, the learned predictor."""

TEST: dict[str, tuple[str, ...]] = {
    "steady": (
        "calendar_360x288",
        "walk_360x240",
        "cars_384x216[0:100]",
        "asl_320x240",
        "bbb_480x270[45:145]",
        f"generated:water?{_SMALL}&seed=301",
        f"generated:talk?{_SMALL}&seed=302",
    ),
    "cuts": (
        "bbb_480x270[0:100]",
        "asl_320x240[0:40]+walk_360x240+generated:talk?size=320x180&frames=40&seed=303",
        "generated:water?size=320x180&frames=30&seed=304+bbb_480x270[60:90]+cars_384x216[10:40]+calendar_360x288[0:30]",
        "walk_360x240[0:25]+generated:talk?size=320x180&frames=50&seed=305+walk_360x240[20:47]",
        "cars_384x216[100:130]+calendar_360x288+bbb_480x270[0:60]",
    ),
    "screen": (
        "screen_544x400[0:75]",
        "screen_544x400[75:150]",
        "atari:Assault?frames=150",
        "atari:Asteroids?frames=150",
    ),
    "shake": (
        "shaken(bbb_480x270[45:125])",
        "shaken(asl_320x240)",
        "shaken(calendar_360x288)",
        f"shaken(generated:talk?{_SMALL}&seed=306)",
        f"shaken(generated:water?{_SMALL}&seed=307)",
    ),
}
"""What the tables show."""

_MARGIN = 0.06  # of each side of the picture that the shaking camera may cut off


def open_live(text: str) -> Clip:
    """The clip that a text stands for."""
    parts = [_open_part(part) for part in text.split("+")]
    first = parts[0]
    if len(parts) == 1:
        return replace(first, name=text)
    return concatenate([scaled_clip(part, first.width, first.height) for part in parts], text)


def shaken(clip: Clip, seed: int = 0) -> Clip:
    """The clip as a hand-held camera shows it: the picture sways, trembles and tilts by fractions of a pixel."""
    return replace(clip, name=f"shaken({clip.name})", start_reading=partial(_read_shaken, clip, seed))


def flickering(clip: Clip) -> Clip:
    """The clip with every other picture black."""
    return replace(clip, name=f"flickering({clip.name})", start_reading=partial(_read_flickering, clip))


def _open_part(text: str) -> Clip:
    if match := re.fullmatch(r"(shaken|flickering)\((.+)\)", text):
        return {"shaken": shaken, "flickering": flickering}[match[1]](_open_part(match[2]))
    if match := re.fullmatch(r"(.+)\[(\d+):(\d+)\]", text):
        first, end = int(match[2]), int(match[3])
        if first >= end:
            raise ConfigError(f"{text}: frames {first} to {end - 1}; write [first:end] with the end above the first")
        return _open_part(match[1]).window(first, end - first)
    return open_clip(text)


def _read_flickering(clip: Clip, start: int) -> Iterator[Frame]:
    for number, frame in enumerate(clip.frames(start), start):
        yield _black(frame) if number % 2 else frame


def _black(frame: Frame) -> Frame:
    made = Frame.empty(frame.width, frame.height, frame.depth)
    for plane, level in zip(made.planes, (16, 128, 128), strict=True):
        plane[:] = level << (frame.depth - 8)
    return made


def _read_shaken(clip: Clip, seed: int, start: int) -> Iterator[Frame]:
    for number, frame in enumerate(clip.frames(start), start):
        yield _moved(frame, _hand(number, seed, frame.width))


def _hand(number: int, seed: int, width: int) -> tuple[float, float, float]:
    """(right, down, degrees) of the camera: slow sway, quicker tremble, and now and then a jolt."""
    phases = np.random.default_rng(seed).uniform(0, 2 * math.pi, 7)
    wave = [math.sin(2 * math.pi * number / period + phase) for period, phase in zip(_PERIODS, phases, strict=True)]
    jolt = math.exp(-(number % 41) / 4) * math.sin(1.7 * (number % 41))
    scale = width / 320
    right = scale * (5.0 * wave[0] + 1.5 * wave[1] + 0.7 * wave[2] + 3.0 * jolt)
    down = scale * (4.0 * wave[3] + 1.2 * wave[4] + 0.6 * wave[5] - 2.0 * jolt)
    return right, down, 0.5 * wave[6]


_PERIODS = (47.0, 13.3, 5.1, 61.0, 11.7, 4.3, 37.0)  # frames


def _moved(frame: Frame, hand: tuple[float, float, float]) -> Frame:
    """The frame a little enlarged, so that no edge is seen, and moved."""
    right, down, degrees = hand
    made = Frame.empty(frame.width, frame.height, frame.depth)
    for plane, result in zip(frame.planes, made.planes, strict=True):
        height, width = plane.shape
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1 / (1 - _MARGIN))
        turn[:, 2] += np.array((right, down)) * width / frame.width
        cv2.warpAffine(plane, turn, (width, height), dst=result, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return made
