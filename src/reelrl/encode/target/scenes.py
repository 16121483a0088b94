"""Scenes to learn from: short stretches without a cut, spread over each video of a list."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from reelrl.content.catalogue import VIDEO_SUFFIXES
from reelrl.content.sources import open_clip
from reelrl.errors import ConfigError
from reelrl.names import RECIPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

GENERATED = tuple(
    f"generated:{style}?size={size}&frames=48&seed={seed}"
    for size, seed in (("640x360", 0), ("640x360", 1), ("1280x720", 2))
    for style in ("street", "pan", "water", "talk", "screen", "noise")
)
"""What is learned from where no videos are given."""

SUFFIXES = (*VIDEO_SUFFIXES, ".264", ".h264", ".265", ".hevc", ".m4v", ".mpg", ".ts")
_THUMBNAIL = (64, 36)
_CUT = 0.6  # mean difference of two thumbnails over the spread of their levels


@dataclass(frozen=True)
class SceneChoice:
    """How scenes are taken from videos.

    scenes  of a video at most
    frames  of a scene
    """

    scenes: int = 5
    frames: int = 48


def videos_in(places: Sequence[str]) -> list[str]:
    """The videos that folders, files and recipes stand for, in the order of their names within a folder."""
    found: list[str] = []
    for place in places or GENERATED:
        if place.partition(":")[0] in RECIPES or not Path(place).is_dir():
            found.append(place)
            continue
        inside = sorted(str(path) for path in Path(place).iterdir() if path.suffix.lower() in SUFFIXES)
        if not inside:
            raise ConfigError(f"{place} holds no video ({', '.join(SUFFIXES)}); give a folder that does, or files")
        found += inside
    return found


def scenes_of(video: str, choice: SceneChoice) -> list[Clip]:
    """Scenes of one video, in their order; a video that is shorter than a scene is one."""
    clip = open_clip(video)
    clip = replace(clip, source=source_of(clip.source))
    length = choice.frames
    if clip.frame_count <= length:
        return [clip]
    cuts = _cuts(clip)
    edges = [0, *cuts, clip.frame_count]
    starts = [start for begin, end in itertools.pairwise(edges) for start in range(begin, end - length + 1, length)]
    if not starts:
        return []
    places = np.linspace(0, len(starts) - 1, min(choice.scenes, len(starts)))
    return [clip.window(starts[int(place)], length) for place in places]


def source_of(name: str) -> str:
    """Whose pictures these are: the name without what says size, rate or length, as in `bunny-1080p-30sec`."""
    kept = re.sub(r"[-_ ]?(\d+x\d+|\d+p(\d+)?|\d+fps|\d+sec|\d{3,4})(?=[-_ .]|$)", "", name)
    return kept.strip("-_ .") or name


def _cuts(clip: Clip) -> list[int]:
    """Frames at which another scene begins, by thumbnails: enough to keep cuts out of what is learned from."""
    cuts: list[int] = []
    before: np.ndarray | None = None
    for number, frame in enumerate(clip):
        thumbnail = cv2.resize(frame.y, _THUMBNAIL, interpolation=cv2.INTER_AREA).astype(np.float32)
        if before is not None and np.abs(thumbnail - before).mean() > _CUT * max(float(before.std()), 8.0):
            cuts.append(number)
        before = thumbnail
    return cuts
