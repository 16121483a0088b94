"""Videos and manifests that no program of good will wrote: each is read as well as it can be, or refused in words."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import av
import pytest

from reelrl.content.catalogue import catalogue
from reelrl.content.clip import Clip
from reelrl.content.read.random_access import RandomAccessVideo
from reelrl.content.read.video import VideoReader
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video
from reelrl.errors import ContentError
from tests.content.makers import encode, noise_frames, smooth_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FRAMES = smooth_frames(64, 48, 6)


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    """The file with all `old` bytes replaced by as many others."""
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new))
    return path


def read_all(path: Path) -> int:
    return sum(1 for _ in VideoReader(path))


def look_at_one(path: Path) -> int:
    video = RandomAccessVideo(path)
    try:
        return len(video.pictures([video.frame_count - 1]))
    finally:
        video.close()


READERS = [read_all, look_at_one]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(("suffix", "codec"), [("mkv", b"V_FFV1"), ("mp4", b"avc1")])
def test_a_codec_that_nobody_knows_is_refused(
    tmp_path: Path, suffix: str, codec: bytes, read: Callable[[Path], int]
) -> None:
    path = encode(tmp_path / f"a.{suffix}", FRAMES, codec="ffv1" if suffix == "mkv" else "libx264")
    replaced(path, codec, b"V_QQQQ" if suffix == "mkv" else b"qqqq")
    with pytest.raises(ContentError, match="no decoder for its video"):
        read(path)


@pytest.mark.parametrize("read", READERS)
def test_texts_in_a_container_need_not_be_utf_8(tmp_path: Path, read: Callable[[Path], int]) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "a title in Latin-1"
        stream = container.add_stream("ffv1", rate=25)
        stream.metadata["title"] = "a title in Latin-1"
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for frame in FRAMES:
            picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, 64), format="yuv420p")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    replaced(path, b"a title in Latin-1", b"\xe4 t\xeftle \xffn Latin-1")
    replaced(path, b"DURATION", b"DURATIO\xff")
    assert read(path) > 0


@pytest.mark.parametrize(
    "text", [b"aa:bb:cc.000000000", b"inf:00:00.00000000", b"00:00:infinity    ", b"99:99:9e99        "]
)
def test_a_length_that_is_no_time_is_not_believed(tmp_path: Path, text: bytes) -> None:
    path = encode(tmp_path / "a.mkv", FRAMES)
    replaced(path, b"00:00:00.240000000", text)
    assert read_all(path) == len(FRAMES)


@pytest.mark.parametrize("rate", [b"0:0", b"00:00", b"25:00", b"00:1"])
def test_a_rate_of_nothing_asks_for_another(tmp_path: Path, rate: bytes) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(b"YUV4MPEG2 W4 H4 F" + rate + b"\nFRAME\n" + bytes(24))
    with pytest.raises(ContentError, match="pass fps="):
        VideoReader(path)
    assert len(VideoReader(path, fps=25)) == 1


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("suffix", ["y4m", "mkv", "yuv"])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(
    tmp_path: Path, suffix: str, read: Callable[[Path], int]
) -> None:
    pipe = tmp_path / f"pipe_64x48.{suffix}"
    os.mkfifo(pipe)
    device = tmp_path / f"device_64x48.{suffix}"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(ContentError, match="not a plain file"):
            read(path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x/" * 3000])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(ContentError):
        open_clip(name)
    with pytest.raises(ContentError):
        Clip.open(name)


@pytest.mark.parametrize("suffix", ["y4m", "yuv", "mkv"])
def test_a_file_that_is_gone_when_it_is_read_is_told(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a_64x48.{suffix}"
    if suffix == "mkv":
        encode(path, FRAMES)
    else:
        write_video(path, Clip.from_frames(FRAMES, fps=25))
    clip, reader = Clip.open(path), VideoReader(path)
    path.unlink()
    with pytest.raises(ContentError):
        list(clip)
    with pytest.raises(ContentError):
        list(reader)


def test_a_picture_of_another_size_is_refused_by_those_who_jump(tmp_path: Path) -> None:
    small = encode(tmp_path / "a.h264", smooth_frames(64, 48, 30), codec="libx264", options={"bf": "0"})
    large = encode(tmp_path / "b.h264", smooth_frames(96, 64, 5), codec="libx264", options={"bf": "0"})
    both = tmp_path / "c.h264"
    both.write_bytes(small.read_bytes() + large.read_bytes())
    video = RandomAccessVideo(both)
    with pytest.raises(ContentError):
        video.pictures(range(video.frame_count))
    video.close()


def one_clip(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "file": "a.y4m", "width": 4, "height": 4, "fps": "25", "frames": 1, "source": "s"} | changes


@pytest.mark.parametrize(
    "record",
    [
        one_clip(width=float("inf")),
        one_clip(frames=float("nan")),
        one_clip(fps=float("inf")),
        one_clip(fps="1/0"),
        one_clip(width="9" * 5000),
        one_clip(raw_yuv_sha256=["a"]),
        one_clip(source=["s"]),
        one_clip(file=7),
        None,
        [],
        "clip",
    ],
)
def test_a_manifest_entry_that_cannot_be_right_is_named(tmp_path: Path, record: Any) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    write_video(tmp_path / "a.y4m", Clip.from_frames(noise_frames(4, 4, 1), fps=25))
    (folder / "MANIFEST.json").write_text(json.dumps({"clips": [one_clip(), record]}))
    with pytest.raises(ContentError, match=r"MANIFEST.json: clip 1 ") as caught:
        catalogue(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"clips": ' + b"[" * 5000 + b"]" * 5000 + b"}", b"\xff\xfe{", b""])
def test_a_manifest_that_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "MANIFEST.json").write_bytes(text)
    with pytest.raises(ContentError):
        catalogue(tmp_path)
