"""From what people type to a clip: a recipe, a path, or a name in the catalogue."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reelrl.content.clip import Clip
from reelrl.errors import ConfigError, ContentError
from reelrl.names import RECIPES, did_you_mean, resolve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What may follow the question mark of a recipe.
OPTIONS: dict[str, tuple[str, ...]] = {
    "generated": ("size", "frames", "fps", "seed"),
    "atari": ("frames", "fps", "seed", "scale", "player"),
}


def open_clip(
    name: str | Path,
    size: tuple[int, int] | None = None,
    fps: Fraction | int | None = None,
    *,
    convert_420: bool = False,
) -> Clip:
    """The clip that a recipe, path or catalogue name stands for.

    Recipes look like "generated:street?size=352x288&frames=60&seed=3"; `size`, `fps` and `convert_420` are for files,
    as in `VideoReader`. An existing file wins over a catalogue name.
    """
    text = str(name)
    scheme, colon, rest = text.partition(":")
    if colon and scheme in RECIPES:
        return _from_recipe(scheme, rest)
    if os.path.lexists(text):
        return Clip.open(text, size, fps, convert_420=convert_420)
    from reelrl.content.catalogue import catalogue

    entries = {entry.clip.name: entry.clip for entry in catalogue()}
    if text not in entries:
        raise ContentError(f"no clip {text!r}: it is neither a file nor in the catalogue{did_you_mean(text, entries)}")
    return entries[text]


def _from_recipe(scheme: str, rest: str) -> Clip:
    known = OPTIONS[scheme]
    subject, _, query = rest.partition("?")
    options: dict[str, Any] = {}
    for part in query.split("&") if query else []:
        key, _, value = part.partition("=")
        if key not in known:
            raise ConfigError(f"{scheme}:{rest}: unknown option {key!r}{did_you_mean(key, known)}")
        options[key] = _PARSERS[key](key, value)
    maker: Callable[..., Clip] = resolve(RECIPES, scheme)
    return maker(subject, **options)


def parse_size(key: str, text: str) -> tuple[int, int]:
    """(width, height) from "352x288"."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise ConfigError(f"{key} is {text!r}; write it like 352x288")
    return int(match[1]), int(match[2])


def parse_rate(key: str, text: str) -> Fraction:
    """Frames per second from "30", "29.97" or "30000/1001"."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{key} is {text!r}; write it like 30 or 30000/1001") from None


def _parse_count(key: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{key} is {text!r}; it must be a whole number")
    return int(text)


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "size": parse_size,
    "fps": parse_rate,
    "frames": _parse_count,
    "seed": _parse_count,
    "scale": _parse_count,
    "player": lambda _, text: text,
}
