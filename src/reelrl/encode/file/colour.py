"""A source's colours and HDR10 figures as options of SVT-AV1, which writes them into the stream itself.

A stream that is taken out of its container then still says how it is to be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.content.read.carried import FULL_RANGE, UNSPECIFIED

if TYPE_CHECKING:
    from reelrl.content.read.carried import MasteringDisplay, Presentation

# Codes of ITU-T H.273 that AV1 knows; identity, 0, is for RGB alone.
_PRIMARIES = {1, *range(4, 13), 22}
_TRANSFER = {1, *range(4, 19)}
_MOST_LIGHT = 0xFFFF  # cd/m2
_MATRIX = {1, *range(4, 15)}


def colour_options(shown: Presentation) -> dict[str, str]:
    """The encoder's own options, by its own names; empty where the source says nothing."""
    options = {}
    for name, code, known in (
        ("color-primaries", shown.primaries, _PRIMARIES),
        ("transfer-characteristics", shown.transfer, _TRANSFER),
        ("matrix-coefficients", shown.matrix, _MATRIX),
    ):
        if code in known and code != UNSPECIFIED:
            options[name] = str(code)
    if shown.color_range == FULL_RANGE:
        options["color-range"] = "1"
    if shown.mastering is not None and _is_possible(shown.mastering):
        options["mastering-display"] = _mastering(shown.mastering)
    if shown.light is not None and max(shown.light) <= _MOST_LIGHT:
        options["content-light"] = f"{shown.light[0]},{shown.light[1]}"
    return options


def _is_possible(screen: MasteringDisplay) -> bool:
    """Whether AV1 can hold it; a file may say anything."""
    places = (*screen.red, *screen.green, *screen.blue, *screen.white)
    least, most = screen.luminance
    return all(0 <= place < 1 for place in places) and 0 <= least < most <= _MOST_LIGHT


def _mastering(screen: MasteringDisplay) -> str:
    places = {"G": screen.green, "B": screen.blue, "R": screen.red, "WP": screen.white, "L": screen.luminance[::-1]}
    return "".join(f"{name}({one:.6f},{other:.6f})" for name, (one, other) in places.items())
