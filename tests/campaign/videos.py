"""Videos: raw, y4m, Matroska, MP4, IVF, AVI and bare H.264, read forwards, backwards, by jumps, listed and encoded."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING

from reelrl.content.catalogue import catalogue, left_out
from reelrl.content.clip import Clip
from reelrl.content.read.random_access import RandomAccessVideo
from reelrl.content.read.video import VideoReader
from reelrl.content.write.video import write_video
from tests.campaign.mutations import mutated_bytes, mutated_json, replace_by_something_else
from tests.campaign.trial import command
from tests.content.makers import encode, smooth_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed

_MOST_FRAMES = 200


def make_sources(folder: Path) -> None:
    frames = smooth_frames(64, 48, 12)
    clip = Clip.from_frames(frames, fps=25)
    for suffix in ("y4m", "yuv"):
        write_video(folder / f"a_64x48_25.{suffix}", clip)
    encode(folder / "ffv1.mkv", frames)
    encode(folder / "h264.mp4", frames, codec="libx264", options={"bf": "2"})
    encode(folder / "h264.mkv", frames, codec="libx264", options={"g": "4"})
    encode(folder / "h264.h264", frames, codec="libx264")
    encode(folder / "mpeg4.avi", frames, codec="mpeg4")
    encode(folder / "vp9.webm", frames, codec="libvpx-vp9", options={"cpu-used": "8"})
    encode(folder / "av1.ivf", frames, codec="libsvtav1", options={"preset": "12"})
    encode(folder / "av1.mp4", frames, codec="libsvtav1", options={"preset": "12"})
    encode(folder / "av1.mkv", frames, codec="libsvtav1", options={"preset": "12"})
    encode(folder / "mjpeg.mov", frames, codec="mjpeg", pixel_format="yuvj420p")


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    source = chance.choice(sorted(sources.iterdir()))
    path = folder / source.name
    path.write_bytes(mutated_bytes(source.read_bytes(), chance))
    if chance.random() < 0.06:
        replace_by_something_else(path, outside, chance)
    yield "frames", lambda: _read_all(path)
    yield "get_frame", lambda: _read_back(path)
    yield "pictures", lambda: _jump(path)
    yield "content_hash", lambda: Clip.open(path).window(0, 1).content_hash
    if chance.random() < 0.3:
        yield "catalogue", lambda: _list(folder, path.name, chance)
    if chance.random() < 0.15:
        yield command("encode", path, "-o", folder / "out" / "x.mkv", "--bitrate", "60", "--preset", "12")


def _read_all(path: Path) -> int:
    reader = VideoReader(path)
    return sum(1 for _ in itertools.islice(reader, _MOST_FRAMES)) + (reader.frame_count >= 0)


def _read_back(path: Path) -> None:
    with VideoReader(path, fps=25) as reader:
        for number in (min(len(reader), _MOST_FRAMES) - 1, 3, 0):
            reader.get_frame(number)


def _jump(path: Path) -> None:
    video = RandomAccessVideo(path)
    try:
        video.pictures([min(video.frame_count, _MOST_FRAMES) - 1, 0, video.frame_count // 2])
    finally:
        video.close()


def _list(folder: Path, name: str, chance: Random) -> None:
    """The folder as a catalogue: by its files, then by a manifest that is broken too."""
    for entry in catalogue(folder):
        if entry.clip.name in name:
            entry.verify()
    left_out(folder)
    record = {"name": "a", "file": name, "width": 64, "height": 48, "fps": "25", "frames": 12, "source": "made"}
    manifest = folder / "MANIFEST.json"
    manifest.write_bytes(mutated_json(json.dumps({"clips": [record, {**record, "raw_yuv_sha256": "0"}]}), chance))
    for entry in catalogue(folder)[-2:]:
        if entry.clip.name == "a":
            entry.verify()
    shutil.rmtree(folder / "out", ignore_errors=True)
