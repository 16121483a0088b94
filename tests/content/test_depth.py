"""Video of 10 bits: frames, files, and what quality means in it."""

from __future__ import annotations

import math
import shutil
import subprocess
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content import quality
from reelrl.content.clip import Clip, concatenate
from reelrl.content.frame import Frame, frame_samples
from reelrl.content.pictures import rgb
from reelrl.content.read.video import VideoReader
from reelrl.content.write.video import write_video
from reelrl.content.xpsnr import xpsnr
from reelrl.encode.features import FeatureExtractor
from reelrl.errors import ConfigError, ContentError
from tests.content.makers import noise_frames, smooth_frames
from tests.encode.makers import deep_scene

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


WIDTH, HEIGHT = 64, 48


def deep_frames(count: int, width: int = WIDTH, height: int = HEIGHT, seed: int = 0) -> list[Frame]:
    rng = np.random.default_rng(seed)
    return [Frame(rng.integers(0, 1024, frame_samples(width, height), np.uint16), width, height) for _ in range(count)]


def file_of(path: Path, frames: Sequence[Frame], pixel_format: str) -> Path:
    """Frames stored without loss in FFV1, converted by FFmpeg where they are of another format."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = frames[0].width, frames[0].height, pixel_format
        for frame in frames:
            form = "yuv420p" if frame.depth == 8 else "yuv420p10le"
            picture = av.VideoFrame(frame.width, frame.height, form)
            for plane, values in zip(picture.planes, frame.planes, strict=True):
                rows = np.zeros((plane.height, plane.line_size // values.itemsize), values.dtype)
                rows[:, : plane.width] = values
                plane.update(rows.tobytes())
            container.mux(stream.encode(picture.reformat(format=pixel_format)))
        container.mux(stream.encode(None))
    return path


@given(value=st.integers(0, 255))
def test_eight_bits_survive_the_way_up_and_down(value: int) -> None:
    frame = Frame(np.full(6, value, np.uint8), 2, 2)
    assert frame.at_depth(10).data.tolist() == [4 * value] * 6
    assert frame.at_depth(10).at_depth(8) == frame
    assert frame.at_depth(8) is frame


@given(value=st.integers(0, 1023))
def test_ten_bits_are_rounded_to_the_nearest_of_eight(value: int) -> None:
    frame = Frame(np.full(6, value, np.uint16), 2, 2)
    assert frame.at_depth(8).data.tolist() == [min(math.floor(value / 4 + 0.5), 255)] * 6


def test_depth_is_part_of_what_a_frame_is() -> None:
    frame = smooth_frames(16, 16, 1)[0]
    deep = frame.at_depth(10)
    assert (frame.depth, deep.depth) == (8, 10)
    assert Frame(frame.data.astype(np.uint16), 16, 16) != frame
    assert repr(deep) == "Frame(16x16, 10 bit)"
    with pytest.raises(ConfigError, match="depth = 12; a sample has 8 or 10 bits"):
        frame.at_depth(12)


def test_a_clip_has_one_depth() -> None:
    eight, ten = Clip.from_frames(smooth_frames(16, 16, 3), fps=25), Clip.from_frames(deep_frames(3, 16, 16), fps=25)
    assert (eight.depth, ten.depth, eight.at_depth(10).depth, ten.window(1, 2).depth) == (8, 10, 10, 10)
    assert eight.content_hash != eight.at_depth(10).content_hash
    assert eight.at_depth(10).at_depth(8).content_hash == eight.content_hash
    assert list(ten.at_depth(8).frames(2)) == [list(ten)[2].at_depth(8)]
    with pytest.raises(ContentError, match="frame 1 has 10 bits, frame 0 has 8; a clip has one depth"):
        Clip.from_frames([next(iter(eight)), next(iter(ten))], fps=25)
    with pytest.raises(ContentError, match="clips of one depth can follow"):
        concatenate([eight, ten])


@pytest.mark.parametrize("name", ["a.y4m", "a_64x48_25_10bit.yuv", "a_64x48_25_yuv420p10le.yuv", "420p10_64x48_25.yuv"])
def test_uncompressed_files_keep_every_bit(tmp_path: Path, name: str) -> None:
    clip = Clip.from_frames(deep_frames(4), fps=25)
    write_video(tmp_path / name, clip)
    read = Clip.open(tmp_path / name)
    assert (read.depth, read.frame_count) == (10, 4)
    assert read.fps == 25
    assert list(read) == list(clip)
    assert list(read.frames(3)) == list(clip)[3:]


@pytest.mark.parametrize("name", ["a_64x48_10.yuv", "210bit_64x48.yuv", "a_64x48_10bitter.yuv"])
def test_other_names_do_not_say_ten_bits(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(frame_samples(WIDTH, HEIGHT)))
    assert Clip.open(tmp_path / name).depth == 8


@pytest.mark.parametrize(("name", "depth"), [("a_64x48.yuv", 10), ("a_64x48_10bit.yuv", 8)])
def test_a_raw_file_is_not_written_under_a_name_of_another_depth(tmp_path: Path, name: str, depth: int) -> None:
    clip = Clip.from_frames(deep_frames(1), fps=25).at_depth(depth)
    with pytest.raises(ConfigError, match="the name of a raw file tells its depth"):
        write_video(tmp_path / name, clip)
    assert list(tmp_path.iterdir()) == []


def test_samples_beyond_ten_bits_are_refused(tmp_path: Path) -> None:
    frames = deep_frames(2)
    frames[1].data[7] = 1024
    write_video(tmp_path / "a.y4m", Clip.from_frames(frames, fps=25))
    reader = VideoReader(tmp_path / "a.y4m").frames()
    next(reader)
    with pytest.raises(ContentError, match="frame 1 of 2: a sample of a 10-bit frame is 1024"):
        next(reader)


def test_compressed_files_keep_every_bit(tmp_path: Path) -> None:
    frames = deep_frames(3)
    clip = Clip.open(file_of(tmp_path / "a.mkv", frames, "yuv420p10le"))
    assert clip.depth == 10
    assert list(clip) == frames


@pytest.mark.parametrize(
    ("pixel_format", "depth"), [("yuv422p", 8), ("yuv444p", 8), ("yuv444p10le", 10), ("yuv420p12le", 10)]
)
def test_other_chroma_is_converted_when_asked(tmp_path: Path, pixel_format: str, depth: int) -> None:
    frames = [frame.at_depth(depth) for frame in smooth_frames(WIDTH, HEIGHT, 2)]
    path = file_of(tmp_path / "a.mkv", frames, pixel_format)
    with pytest.raises(ContentError, match="--convert-420"):
        Clip.open(path)
    clip = Clip.open(path, convert_420=True)
    assert clip.depth == depth
    for frame, read in zip(frames, clip, strict=True):
        assert read.y.tolist() == frame.y.tolist()
        assert np.abs(read.u.astype(int) - frame.u.astype(int)).max() <= 2


def test_y4m_of_other_chroma_is_converted_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.y4m"
    luma = np.arange(256, dtype=np.uint8).tobytes()
    path.write_bytes(b"YUV4MPEG2 W16 H16 F25:1 Ip C444\nFRAME\n" + luma + bytes([90] * 256) + bytes([160] * 256))
    frame = next(iter(Clip.open(path, convert_420=True)))
    assert frame.y.tobytes() == luma
    assert (np.unique(frame.u).tolist(), np.unique(frame.v).tolist()) == ([90], [160])


def test_rgb_is_refused_even_when_asked_to_convert(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.mkv", smooth_frames(WIDTH, HEIGHT, 1), "bgr0")
    with pytest.raises(ContentError, match="has pixel format bgr0"):
        Clip.open(path, convert_420=True)


def test_the_peak_of_ten_bits_is_1023() -> None:
    black, white = (Frame(np.full(96, value, np.uint16), 8, 8) for value in (0, 1023))
    assert quality.psnr(black, white) == (0, 0, 0)
    assert quality.psnr_of_mean_mse([1023**2 * 5], 5, depth=10) == 0
    assert quality.psnr_from_sse(quality.sse_in_8_bits(10**9, 10), 10**6) == pytest.approx(
        quality.psnr_from_sse(10**9, 10**6, depth=10)
    )


def ffmpeg_psnr(a: Clip, b: Clip, folder: Path) -> list[float]:
    """Luma PSNR of each frame by FFmpeg's own filter."""
    for name, clip in (("a", a), ("b", b)):
        write_video(folder / f"{name}.y4m", clip)
    command = ["-i", "a.y4m", "-i", "b.y4m", "-lavfi", "psnr=stats_file=psnr.log", "-f", "null", "-"]
    subprocess.run([quality.vmaf_program(), *command], cwd=folder, check=True, capture_output=True)
    words = [dict(word.split(":") for word in line.split()) for line in (folder / "psnr.log").read_text().splitlines()]
    return [float(each["psnr_y"]) for each in words]


def ffmpeg_vmaf(a: Clip, b: Clip, folder: Path) -> list[float]:
    """VMAF from two files, as anybody would ask FFmpeg for it."""
    for name, clip in (("a", a), ("b", b)):
        write_video(folder / f"{name}.y4m", clip)
    graph = "libvmaf=log_fmt=csv:log_path=vmaf.csv"
    command = ["-i", "b.y4m", "-i", "a.y4m", "-lavfi", graph, "-f", "null", "-"]
    subprocess.run([quality.vmaf_program(), *command], cwd=folder, check=True, capture_output=True)
    head, *rows = [line.split(",") for line in (folder / "vmaf.csv").read_text().splitlines()]
    return [float(row[head.index("vmaf")]) for row in rows]


def blurred(clip: Clip) -> Clip:
    import cv2

    frames = []
    for frame in clip:
        worse = Frame(frame.data.copy(), frame.width, frame.height)
        for plane in worse.planes:
            plane[...] = cv2.blur(plane, (3, 3))
        frames.append(worse)
    return Clip.from_frames(frames, fps=clip.fps)


def test_psnr_and_vmaf_of_ten_bits_are_what_ffmpeg_says(tmp_path: Path) -> None:
    clip = deep_scene("street", 4, (176, 144))
    worse = blurred(clip)
    ours = [quality.psnr(a, b).y for a, b in zip(clip, worse, strict=True)]
    assert ours == pytest.approx(ffmpeg_psnr(clip, worse, tmp_path), abs=0.006)  # it prints two digits
    scores = quality.vmaf(clip, worse)
    assert scores == pytest.approx(ffmpeg_vmaf(clip, worse, tmp_path), abs=0.001)
    assert scores == pytest.approx(quality.vmaf(clip.at_depth(8), worse.at_depth(8)), abs=1)
    assert 20 < np.mean(scores) < 99


def test_xpsnr_of_ten_bits_is_near_that_of_eight() -> None:
    clip = deep_scene("street", 4, (176, 144))
    worse = blurred(clip)
    assert xpsnr(clip, worse) == pytest.approx(xpsnr(clip.at_depth(8), worse.at_depth(8)), abs=1)


def test_ssim_does_not_depend_on_the_depth() -> None:
    clip = deep_scene("street", 1, (64, 48))
    (frame,), (worse,) = clip, blurred(clip)
    assert quality.ssim(frame, frame) == pytest.approx((1, 1, 1))
    # Its constants are shares of the peak, so ten bits scaled to eight, without rounding, are as similar.
    scale = 255 / 1023
    x, y = frame.y * scale, worse.y * scale
    slow = _ssim(x, y)
    assert quality.plane_ssim(frame.y, worse.y) == pytest.approx(slow, abs=1e-9)


def _ssim(x: np.ndarray, y: np.ndarray) -> float:
    """The definition, window by window, for a peak of 255."""
    axis = np.exp(-(np.arange(-5, 6) ** 2) / 4.5)
    weights = np.outer(axis, axis) / axis.sum() ** 2
    c1, c2 = 2.55**2, 7.65**2
    windows = [np.lib.stride_tricks.sliding_window_view(plane, (11, 11)) for plane in (x, y)]
    a, b = windows
    mean_a, mean_b, aa, bb, ab = ((values * weights).sum((2, 3)) for values in (a, b, a * a, b * b, a * b))
    covariance, variances = ab - mean_a * mean_b, aa + bb - mean_a**2 - mean_b**2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    return float((top / ((mean_a**2 + mean_b**2 + c1) * (variances + c2))).mean())


def test_pictures_of_two_depths_are_not_compared() -> None:
    frame = noise_frames(32, 32, 1)[0]
    for measure in (quality.psnr, quality.ssim):
        with pytest.raises(ConfigError, match="pictures differ in depth: 8 and 10 bits"):
            measure(frame, frame.at_depth(10))
    with pytest.raises(ConfigError, match="pictures differ in depth: 10 and 8 bits"):
        quality.vmaf([frame.at_depth(10)], [frame])


def test_features_and_pictures_see_ten_bits_as_eight() -> None:
    first, second = smooth_frames(96, 64, 2)
    eight, ten = FeatureExtractor(96, 64), FeatureExtractor(96, 64)
    for frame in (first, second):
        assert (eight.extract(frame) == ten.extract(frame.at_depth(10))).all()
    assert (rgb(first) == rgb(first.at_depth(10))).all()


def test_ffprobe_reads_our_ten_bit_y4m(tmp_path: Path) -> None:
    if shutil.which("ffprobe") is None:
        pytest.skip("no ffprobe: apt-get install ffmpeg")
    write_video(tmp_path / "a.y4m", Clip.from_frames(deep_frames(2), fps=Fraction(25)))
    asked = ["ffprobe", "-v", "error", "-show_entries", "stream=pix_fmt,width,height", "-of", "csv=p=0"]
    told = subprocess.run([*asked, str(tmp_path / "a.y4m")], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["64,48,yuv420p10le"]
