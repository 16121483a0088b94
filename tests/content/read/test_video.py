from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.content.clip import Clip
from reelrl.content.read.uncompressed import Y4mVideo, size_from_name
from reelrl.content.read.video import CACHED_FRAMES, VideoReader
from reelrl.content.write.video import write_video
from reelrl.errors import ConfigError
from tests.content.makers import NTSC, clips, encode, noise_frames, smooth_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.frame import Frame


@given(clip=clips())
@settings(deadline=None)
def test_y4m_gives_back_what_was_written(clip: Clip) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.y4m"
        write_video(path, clip)
        again = Clip.open(path)
        assert (again.width, again.height, again.fps, len(again)) == (clip.width, clip.height, clip.fps, len(clip))
        assert list(again) == list(clip)


@given(clip=clips(), fps=st.integers(1, 120))
@settings(deadline=None)
def test_raw_video_gives_back_what_was_written_and_its_name_tells_the_size(clip: Clip, fps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"clip_{clip.width}x{clip.height}_{fps}.yuv"
        write_video(path, clip)
        again = Clip.open(path)
        assert list(again) == list(clip)
        assert again.fps == fps


@pytest.fixture(scope="module", params=["y4m", "yuv", "mkv", "mp4"])
def video(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Frame]]:
    """A file of each kind with 60 frames, and those frames as one pass reads them."""
    path = tmp_path_factory.mktemp("video") / f"v_64x48_25.{request.param}"
    frames = smooth_frames(64, 48, 60)
    if request.param == "mkv":
        encode(path, frames)
    elif request.param == "mp4":
        encode(path, frames, codec="libx264", options={"bf": "3", "qp": "0"})
    else:
        write_video(path, Clip.from_frames(frames, fps=25))
    return path, frames


def test_every_kind_of_file_is_lossless_here(video: tuple[Path, list[Frame]]) -> None:
    path, frames = video
    reader = VideoReader(path)
    assert reader.frame_count == 60
    assert reader.fps == 25
    assert list(reader) == frames
    assert list(reader.frames(41)) == frames[41:]
    assert list(reader) == frames


@given(order=st.lists(st.integers(0, 59), max_size=12))
@settings(deadline=None, max_examples=15)
def test_random_access_equals_sequential_reading(video: tuple[Path, list[Frame]], order: list[int]) -> None:
    path, frames = video
    with VideoReader(path) as reader:
        for index in order:
            assert reader.get_frame(index) == frames[index]


class Counting(VideoReader):
    """Counts passes and frames."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.passes = self.read = 0

    def frames(self, start: int = 0) -> Iterator[Frame]:
        self.passes += 1
        for frame in super().frames(start):
            self.read += 1
            yield frame


def test_near_by_reads_decode_nothing_again(video: tuple[Path, list[Frame]]) -> None:
    reader = Counting(video[0])
    for index in range(30):
        reader.get_frame(index)
        reader.get_frame(max(0, index - CACHED_FRAMES + 1))
    assert (reader.passes, reader.read) == (1, 30)


def test_walking_backwards_starts_again_once_per_half_cache(video: tuple[Path, list[Frame]]) -> None:
    reader = Counting(video[0])
    for index in reversed(range(54)):
        reader.get_frame(index)
    assert reader.passes == 54 / (CACHED_FRAMES // 2 + 1)


def test_a_frame_that_does_not_exist_is_named(video: tuple[Path, list[Frame]]) -> None:
    with pytest.raises(ConfigError, match=r"frame 60 does not exist: .* has frames 0 to 59"):
        VideoReader(video[0]).get_frame(60)


def test_a_closed_reader_can_be_used_again(video: tuple[Path, list[Frame]]) -> None:
    reader = VideoReader(video[0])
    first = reader.get_frame(5)
    reader.close()
    assert reader.get_frame(5) == first


def test_the_rate_can_be_overridden(video: tuple[Path, list[Frame]]) -> None:
    assert VideoReader(video[0], fps=NTSC).fps == NTSC
    if video[0].suffix != ".yuv":
        with pytest.raises(ConfigError, match="is 64x48, not 32x32"):
            VideoReader(video[0], size=(32, 32))


@pytest.mark.parametrize(
    ("name", "size", "fps"),
    [
        ("foo_352x288_30.yuv", (352, 288), 30),
        ("foo_352x288.yuv", (352, 288), None),
        ("Bus-1920x1080-23.976.yuv", (1920, 1080), Fraction("23.976")),
        ("a_64x64_50fps_8bit.yuv", (64, 64), 50),
        ("416x240@60.yuv", (416, 240), 60),
        ("a_352x288_orig.yuv", (352, 288), None),
        ("foo.yuv", None, None),
        ("foo_0x12ab34.yuv", (0, 12), None),
    ],
)
def test_names_tell_size_and_rate(name: str, size: tuple[int, int] | None, fps: Fraction | None) -> None:
    assert size_from_name(Path(name)) == (size, fps)


@pytest.mark.parametrize(
    "chroma", ["", " C420", " C420jpeg", " C420mpeg2", " C420paldv XYSCSS=420JPEG XCOLORRANGE=FULL"]
)
def test_y4m_headers_and_frame_parameters_are_understood(tmp_path: Path, chroma: str) -> None:
    frames = noise_frames(6, 4, 3)
    lines = (b"FRAME\n", b"FRAME Ip XWHAT=ever\n", b"FRAME I1\n")
    path = tmp_path / "odd"  # no suffix: the first bytes decide
    path.write_bytes(
        f"YUV4MPEG2 W6 H4 F30000:1001 Ip A128:117{chroma}\n".encode()
        + b"".join(line + frame.data.tobytes() for line, frame in zip(lines, frames, strict=True))
    )
    reader = VideoReader(path)
    assert reader.fps == NTSC
    assert list(reader) == frames
    assert reader.get_frame(2) == frames[2]


def test_indexing_y4m_skips_the_pixels(tmp_path: Path) -> None:
    path = tmp_path / "c.y4m"
    write_video(path, Clip.from_frames(noise_frames(64, 64, 50), fps=30))
    video = Y4mVideo(path)
    assert video.frame_count == 50
    assert next(video.frames(49)) == list(Clip.open(path))[49]
