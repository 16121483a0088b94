"""Files that cannot be read, or not to their end: what is whole is delivered, and the message says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from reelrl.content.clip import Clip
from reelrl.content.read.video import VideoReader
from reelrl.content.write.video import write_video
from reelrl.errors import ContentError
from tests.content.makers import cut, encode, noise_frames, smooth_frames
from tests.content.whole_files import Whole, picture

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.content.frame import Frame


def read_until_error(path: Path) -> tuple[list[Frame], str]:
    frames: list[Frame] = []
    with pytest.raises(ContentError) as caught:
        frames.extend(VideoReader(path))
    return frames, str(caught.value)


def test_a_matroska_file_cut_short_delivers_what_is_whole(tmp_path: Path) -> None:
    frames = noise_frames(64, 48, 40)
    path = cut(encode(tmp_path / "a.mkv", frames), 0.6)
    seen: list[Frame] = []
    with pytest.raises(ContentError, match=r"frame \d+ of 40 is missing; .* promises 40 frames, \d+ are there"):
        seen.extend(VideoReader(path))
    assert 20 <= len(seen) <= 24
    assert seen == frames[: len(seen)]


def test_an_mp4_cut_short_delivers_only_frames_that_are_surely_in_order(tmp_path: Path) -> None:
    frames = noise_frames(64, 48, 40)
    whole = encode(
        tmp_path / "a.mp4",
        frames,
        codec="libx264",
        options={"bf": "3", "qp": "0", "b-adapt": "0"},
        container_options={"movflags": "faststart"},
    )
    seen: list[Frame] = []
    with pytest.raises(ContentError, match=r"frame \d+ of 40 "):
        seen.extend(VideoReader(cut(whole, 0.6)))
    assert 14 <= len(seen) <= 24
    assert seen == frames[: len(seen)]


def test_an_mp4_that_lost_its_index_says_so(tmp_path: Path) -> None:
    path = cut(encode(tmp_path / "a.mp4", smooth_frames(64, 48, 10), codec="libx264"), 0.5)
    with pytest.raises(ContentError, match="cut short"):
        VideoReader(path)


@pytest.mark.parametrize(
    ("removed", "found"), [(10, "is cut short: 3062 of 3072 bytes"), (3074, "is cut short in its first line")]
)
def test_a_y4m_cut_short_delivers_what_is_whole(tmp_path: Path, removed: int, found: str) -> None:
    frames = noise_frames(64, 32, 10)
    path = tmp_path / "a.y4m"
    write_video(path, Clip.from_frames(frames, fps=30))
    path.write_bytes(path.read_bytes()[:-removed])
    seen, message = read_until_error(path)
    assert seen == frames[:9]
    assert f"frame 9 of 10 {found}" in message
    reader = VideoReader(path)
    assert reader.get_frame(8) == frames[8]
    for _ in range(2):
        with pytest.raises(ContentError, match="frame 9 of 10"):
            reader.get_frame(9)
    assert reader.get_frame(3) == frames[3]


def test_garbage_between_y4m_frames_is_shown(tmp_path: Path) -> None:
    frames = noise_frames(64, 32, 10)
    path = tmp_path / "a.y4m"
    write_video(path, Clip.from_frames(frames, fps=30))
    data = bytearray(path.read_bytes())
    fourth = len(data) - 7 * (6 + 3072)
    data[fourth : fourth + 5] = b"FRUME"
    path.write_bytes(data)
    seen, message = read_until_error(path)
    assert seen == frames[:3]
    assert "frame 3 of 10 begins with b'FRUME\\n" in message


def test_raw_video_of_a_wrong_size_tells_how_far_off_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a_64x32_30.yuv"
    path.write_bytes(bytes(3072 * 3 + 100))
    with pytest.raises(ContentError, match=r"has 9316 bytes, which is 3.03 frames of 64x32") as caught:
        VideoReader(path)
    assert "head -c 9216" in str(caught.value)
    with pytest.raises(ContentError, match="of 32x32"):
        VideoReader(path, size=(32, 32))


def test_raw_video_without_a_size_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / "plain.yuv"
    path.write_bytes(bytes(3072))
    with pytest.raises(ContentError, match="pass size=") as caught:
        VideoReader(path)
    assert "plain_352x288_30.yuv" in str(caught.value)
    assert len(VideoReader(path, size=(64, 32))) == 1


@pytest.mark.parametrize("pixel_format", ["yuv420p12le", "yuv422p", "yuv444p10le", "gray", "bgr0"])
def test_other_pixel_formats_are_refused_with_the_command_that_converts(tmp_path: Path, pixel_format: str) -> None:
    path = encode(tmp_path / "it's.mkv", smooth_frames(64, 48, 2), pixel_format=pixel_format)
    with pytest.raises(ContentError, match=f"has pixel format {pixel_format}; only 4:2:0 with 8 or 10 bits") as caught:
        VideoReader(path)
    assert "ffmpeg -i '" in str(caught.value)
    deep = pixel_format in ("yuv420p12le", "yuv444p10le")
    assert ("-pix_fmt yuv420p10le -strict -1 " if deep else "-pix_fmt yuv420p ") in str(caught.value)
    assert ("--convert-420" in str(caught.value)) == (pixel_format != "bgr0")


@pytest.mark.parametrize("chroma", ["420p12", "422", "444p10", "mono"])
def test_other_y4m_formats_are_refused(tmp_path: Path, chroma: str) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(f"YUV4MPEG2 W4 H4 F30:1 C{chroma}\nFRAME\n".encode() + bytes(96))
    with pytest.raises(ContentError, match=f"has pixel format C{chroma}; only 4:2:0 with 8 or 10 bits"):
        VideoReader(path)


def test_odd_dimensions_are_refused_with_the_command_that_crops(tmp_path: Path) -> None:
    y4m = tmp_path / "a.y4m"
    y4m.write_bytes(b"YUV4MPEG2 W5 H4 F30:1\nFRAME\n" + bytes(32))
    picture = av.VideoFrame.from_ndarray(np.zeros((47, 63, 3), np.uint8), format="rgb24")
    mkv = tmp_path / "a.mkv"
    with av.open(str(mkv), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 63, 47, "yuv420p"
        container.mux(stream.encode(picture.reformat(format="yuv420p")))
        container.mux(stream.encode(None))
    raw = tmp_path / "a_5x4.yuv"
    raw.write_bytes(bytes(32))
    for path, size in ((y4m, "5x4"), (mkv, "63x47"), (raw, "5x4")):
        with pytest.raises(ContentError, match=f"is {size}; 4:2:0 video needs even dimensions: crop it with"):
            VideoReader(path)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"YUV4MPEG2 W4 H4", "header is cut short"),
        (b"YUV4MPEG2 H4 F30:1\n", "a number must follow W"),
        (b"YUV4MPEG2 Wx H4 F30:1\n", "a number must follow W"),
        (b"YUV4MPEG2 W0 H4 F30:1\n", "frame size is 0x4"),
        (b"YUV4MPEG2 W4 H4 F0:0\n", "pass fps="),
        (b"YUV4MPEG2 W4 H4\n", "pass fps="),
    ],
)
def test_bad_y4m_headers_are_refused(tmp_path: Path, header: bytes, problem: str) -> None:
    path = tmp_path / "a.y4m"
    path.write_bytes(header)
    with pytest.raises(ContentError, match=problem):
        VideoReader(path)


def test_what_is_no_video_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.mkv"
    text.write_text("These are not the frames you are looking for. " * 50)
    empty = tmp_path / "empty.mp4"
    empty.touch()
    sound = tmp_path / "sound.wav"
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        samples.sample_rate = 8000
        container.mux(stream.encode(samples))
    cases = {
        text: "is not a video that can be opened",
        empty: "is empty",
        sound: "holds no video .audio found.",
        tmp_path: "is a folder",
        tmp_path / "gone.mkv": "no such file or folder",
        text / "inside.mkv": "a part of the path is a file",
    }
    for path, problem in cases.items():
        with pytest.raises(ContentError, match=problem):
            VideoReader(path)


def test_a_frame_of_another_size_in_mid_stream_is_named(tmp_path: Path) -> None:
    small = encode(tmp_path / "a.h264", smooth_frames(64, 48, 200), codec="libx264", options={"bf": "0"})
    large = encode(tmp_path / "b.h264", smooth_frames(96, 64, 5), codec="libx264", options={"bf": "0"})
    both = tmp_path / "c.h264"
    both.write_bytes(small.read_bytes() + large.read_bytes())
    seen, message = read_until_error(both)
    assert len(seen) == 200
    assert "frame 200 is 96x64, the clip began with 64x48" in message


def test_a_damaged_packet_is_an_error_and_not_a_silent_end(tmp_path: Path) -> None:
    frames = noise_frames(64, 48, 20)
    path = encode(tmp_path / "a.mp4", frames, codec="libx264", options={"bf": "0", "qp": "0", "g": "1"})
    with av.open(str(path)) as container:
        places = [packet.pos or 0 for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    data[places[10] : places[11]] = bytes(places[11] - places[10])
    path.write_bytes(data)
    seen, message = read_until_error(path)
    assert seen == frames[:10]
    assert "frame 10 of 20" in message


def test_a_file_that_changed_after_it_was_opened_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.y4m"
    write_video(path, Clip.from_frames(noise_frames(8, 8, 5), fps=30))
    clip = Clip.open(path)
    write_video(path, Clip.from_frames(noise_frames(8, 8, 4), fps=30))
    with pytest.raises(ContentError, match="has 4 frames, 5 were expected"):
        list(clip)


def test_interlaced_video_is_refused_with_the_command_that_makes_whole_pictures(tmp_path: Path) -> None:
    frames = smooth_frames(64, 64, 4)
    path = encode(
        tmp_path / "it's.mp4", frames, codec="libx264", options={"flags": "+ildct+ilme", "x264-params": "tff=1"}
    )
    plain = tmp_path / "a.y4m"
    plain.write_bytes(b"YUV4MPEG2 W4 H4 F30:1 It\nFRAME\n" + bytes(24))
    for file in (path, plain):
        with pytest.raises(ContentError, match="frame 0 is interlaced") as caught:
            VideoReader(file)
        assert "-vf bwdif" in str(caught.value)


def test_a_cover_picture_is_no_video(tmp_path: Path) -> None:
    sound = Whole(chapters=False).write(tmp_path / "a.mkv")
    with av.open(str(sound)) as source, av.open(str(tmp_path / "b.mkv"), "w") as target:
        copy = target.add_stream_from_template(source.streams.audio[0])
        target.add_attachment("cover.jpg", "image/jpeg", picture())
        for packet in source.demux(source.streams.audio[0]):
            if packet.size:
                packet.stream = copy
                target.mux(packet)
    with pytest.raises(ContentError, match=r"holds no video .audio, cover picture found.; name another file"):
        VideoReader(tmp_path / "b.mkv")
