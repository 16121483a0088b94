"""Single pictures out of video files: the right ones, at the cost of one key interval at most."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from reelrl.content import open_clip
from reelrl.content.colour import frame_from_rgb
from reelrl.content.pictures import rgb
from reelrl.content.read.random_access import RandomAccessVideo
from reelrl.content.write.lossless import LosslessWriter
from reelrl.encode import EncoderSession
from reelrl.encode.file.av1_writer import KEY_INTERVAL, Av1Writer, recording_settings
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FPS = Fraction(35, 4)
FRAMES = 3 * KEY_INTERVAL + 5


@pytest.fixture(scope="module")
def pictures() -> NDArray[np.uint8]:
    """A moving scene in colour, (frames, height, width, 3)."""
    return np.stack([rgb(frame) for frame in open_clip(f"generated:street?size=96x64&frames={FRAMES}")])


@pytest.fixture(scope="module")
def lossless(pictures: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "view.mkv"
    write_all(LosslessWriter(path, 96, 64, FPS), pictures)
    return path


@pytest.fixture(scope="module")
def av1(pictures: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "view.mp4"
    write_all(Av1Writer(path, 96, 64, FPS), pictures)
    return path


def test_lossless_pictures_come_back_bit_for_bit_in_any_order(lossless: Path, pictures: NDArray[np.uint8]) -> None:
    video = RandomAccessVideo(lossless)
    assert video.frame_count == FRAMES
    order = np.random.default_rng(0).integers(0, FRAMES, 40)
    assert np.array_equal(video.pictures(order), pictures[order])
    assert np.array_equal(video.pictures(range(FRAMES)), pictures)


def test_av1_pictures_are_the_encoders_own_reconstruction(av1: Path, pictures: NDArray[np.uint8]) -> None:
    with EncoderSession(recording_settings(96, 64, FPS, recon=True)) as session:
        packets = []
        for picture in pictures:
            session.send(frame_from_rgb(picture))
            packets += session.receive()
        packets += session.flush()
    video = RandomAccessVideo(av1)
    for number in (40, 0, FRAMES - 1, 17, 16):
        recon = packets[number].recon
        assert recon is not None
        planes = av.VideoFrame.from_ndarray(recon.data.reshape(-1, 96), format="yuv420p")
        assert np.array_equal(video.pictures([number])[0], planes.to_ndarray(format="rgb24"))


def test_av1_pictures_resemble_what_was_recorded(av1: Path, pictures: NDArray[np.uint8]) -> None:
    error = RandomAccessVideo(av1).pictures(range(FRAMES)).astype(float) - pictures
    assert 10 * np.log10(255**2 / (error**2).mean()) > 30


@pytest.mark.parametrize("kind", ["av1", "lossless"])
def test_a_picture_costs_one_key_interval_at_most(kind: str, request: pytest.FixtureRequest) -> None:
    interval = {"av1": KEY_INTERVAL, "lossless": 1}[kind]
    video = RandomAccessVideo(request.getfixturevalue(kind))
    for number in np.random.default_rng(1).permutation(FRAMES):
        before = video.decoded
        video.pictures([int(number)])
        assert video.decoded - before <= number % interval + 1


def test_neighbours_are_decoded_once(av1: Path) -> None:
    video = RandomAccessVideo(av1)
    video.pictures([20, 24, 28])
    assert video.decoded == 28 - KEY_INTERVAL + 1
    video.pictures([29, 30])
    assert video.decoded == 30 - KEY_INTERVAL + 1


def test_a_row_that_is_not_there_is_refused(av1: Path) -> None:
    with pytest.raises(ConfigError, match=f"has frames 0 to {FRAMES - 1}"):
        RandomAccessVideo(av1).pictures([0, FRAMES])


def cut(path: Path, folder: Path) -> Path:
    """The first half of a file."""
    half = folder / path.name
    half.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return half


def test_a_cut_mp4_cannot_be_opened(av1: Path, tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="damaged, cut short"):
        RandomAccessVideo(cut(av1, tmp_path))


def test_a_cut_mkv_has_the_pictures_that_are_left(lossless: Path, pictures: NDArray[np.uint8], tmp_path: Path) -> None:
    video = RandomAccessVideo(cut(lossless, tmp_path))
    assert 0 < video.frame_count < FRAMES
    assert np.array_equal(video.pictures([10]), pictures[[10]])
    with pytest.raises(ConfigError, match=f"frame {FRAMES - 1} of"):
        video.pictures([FRAMES - 1])


def test_damaged_bytes_in_the_middle_are_an_error_and_later_pictures_still_come(av1: Path, tmp_path: Path) -> None:
    data = bytearray(av1.read_bytes())
    video = RandomAccessVideo(av1)
    wanted = video.pictures([FRAMES - 1])
    middle = data.index(b"mdat") + 200
    data[middle : middle + 400] = bytes(400)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(data)
    damaged = RandomAccessVideo(broken)
    with pytest.raises(ContentError, match="cannot be decoded"):
        damaged.pictures(range(KEY_INTERVAL))
    assert np.array_equal(damaged.pictures([FRAMES - 1]), wanted)


@pytest.mark.parametrize("writer", [LosslessWriter, Av1Writer])
def test_a_full_disk_is_told_as_such(writer: type[LosslessWriter | Av1Writer], small_disk: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (30, 240, 320, 3), np.uint8)
    path = small_disk / f"view{writer.suffix}"
    with pytest.raises(ContentError, match="the disk is full"):
        write_all(writer(path, 320, 240, FPS), noise)


def write_all(writer: LosslessWriter | Av1Writer, pictures: NDArray[np.uint8]) -> None:
    with writer:
        for picture in pictures:
            writer.write(picture)
