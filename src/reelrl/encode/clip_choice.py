"""Which clips an agent learns from or is judged on, and how much of each."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from reelrl.content.catalogue import catalogue
from reelrl.content.clip import Clip
from reelrl.content.frame import frame_bytes
from reelrl.content.sources import open_clip
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PRISTINE = ("derf", "vid4", "fate", "generated:", "atari:")
"""Sources, or beginnings of their names, whose pictures were never compressed, or hardly."""

IN_MEMORY_BYTES = 256 * 2**20
"""Clips up to this size are read once and held; larger ones are read anew in each episode."""


def split_clips(split: str) -> list[Clip]:
    """Clips of one side of the split; games only where they are installed."""
    if split not in ("train", "test"):
        raise ConfigError(f"split {split!r}; use train or test")
    games = importlib.util.find_spec("ale_py") is not None
    entries = [entry for entry in catalogue() if entry.split == split]
    return [entry.clip for entry in entries if games or not entry.clip.source.startswith("atari:")]


def refuse_10_bit(clip: Clip, what: str) -> None:
    """Say that superblock maps are learned and judged on video of 8 bits."""
    if clip.depth != 8:
        raise ConfigError(f"{clip.name} has {clip.depth} bits, {what} takes 8: use clip.at_depth(8), or another clip")


def opened(video: str | Path | Clip, max_frames: int | None) -> Clip:
    """The clip or its first frames, held in memory unless it is large."""
    clip = video if isinstance(video, Clip) else open_clip(video)
    if max_frames is not None:
        if type(max_frames) is not int or max_frames < 1:
            raise ConfigError(f"max_frames = {max_frames!r}; give a whole number from 1, or None for the whole clip")
        if max_frames < clip.frame_count:
            clip = clip.window(0, max_frames)
    small = frame_bytes(clip.width, clip.height, clip.depth) * clip.frame_count <= IN_MEMORY_BYTES
    return clip.load() if small else clip
