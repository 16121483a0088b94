"""A compressed file can be entered anywhere: the pictures are those of a reading from the first frame on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reelrl.content.clip import Clip
from reelrl.content.read.container import ContainerVideo
from tests.content.makers import encode, smooth_frames

if TYPE_CHECKING:
    from pathlib import Path

FRAMES = 60
KINDS = [
    pytest.param("clip.mp4", "libx264", {"g": "12", "bf": "3"}, id="mp4, B pictures"),
    pytest.param("clip.mkv", "libx264", {"g": "12", "bf": "3", "x264-params": "open-gop=1"}, id="mkv, open GOPs"),
    pytest.param("clip.ts", "libx264", {"g": "12", "bf": "2"}, id="ts"),
    pytest.param("clip.mkv", "libx265", {"x265-params": "keyint=12:open-gop=1:log-level=0"}, id="hevc, open GOPs"),
    pytest.param("clip.avi", "mpeg4", {"g": "12", "bf": "2"}, id="avi"),
    pytest.param("clip.264", "libx264", {"g": "12", "bf": "2"}, id="no times at all"),
]


@pytest.mark.parametrize(("name", "codec", "options"), KINDS)
def test_frames_from_anywhere_are_those_of_the_whole(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    path = tmp_path / name
    encode(path, smooth_frames(96, 64, FRAMES), codec=codec, options=options)
    clip = Clip.open(path)
    whole = [frame.data.tobytes() for frame in clip]
    assert len(set(whole)) == FRAMES
    for start in (1, 11, 12, 13, 35, 36, 50, FRAMES - 1):
        assert [frame.data.tobytes() for frame in clip.frames(start)] == whole[start:], start


def test_a_file_with_an_index_is_not_decoded_up_to_the_place(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    encode(path, smooth_frames(96, 64, FRAMES), codec="libx264", options={"g": "12"})

    class Counting(ContainerVideo):
        decoded = 0

        def _decode(self, *args: int):  # type: ignore[no-untyped-def]
            for picture in super()._decode(*args):
                self.decoded += 1
                yield picture

    video = Counting(path)
    next(video.frames(50))
    assert video.decoded <= 12  # one GOP at most
