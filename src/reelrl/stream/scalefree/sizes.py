"""Sizes that all of the scale-free policy agrees on. Without torch: to play takes none."""

from __future__ import annotations

HISTORY = 8
AHEAD = 4
"""Chunks after the next whose sizes are looked at."""
MEMORY_S = (8.0, 30.0, 120.0)
"""Time constants of the means that outlast HISTORY chunks."""
MEMORY = 2 * len(MEMORY_S) + 5
CONTEXT, RUNG = 58, 24
"""How many numbers `features` gives about the player, and about each rung."""
CAUTION = 1.5
"""What a player has who was told nothing about the link."""
