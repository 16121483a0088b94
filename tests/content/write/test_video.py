from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.content.clip import Clip
from reelrl.content.frame import Frame
from reelrl.content.write.video import CONTAINERS, IvfReader, IvfWriter, Y4mWriter, write_bitstream, write_video
from reelrl.errors import ConfigError, ContentError
from tests.content.makers import NTSC, even, noise_frames, rates

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = [".ivf", *CONTAINERS]


@given(packets=st.lists(st.binary(max_size=200)), width=even, height=even, fps=rates)
@settings(deadline=None)
def test_ivf_gives_back_what_was_written(packets: list[bytes], width: int, height: int, fps: Fraction) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ivf"
        with IvfWriter(path, width, height, fps) as writer:
            for packet in packets:
                writer.write(packet)
        reader = IvfReader(path)
        assert (reader.width, reader.height, reader.fps, reader.fourcc) == (width, height, fps, "AV01")
        assert list(reader) == packets == list(reader)
        assert int.from_bytes(path.read_bytes()[24:28], "little") == len(packets)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("fps", [NTSC, Fraction(25), Fraction(25, 2)])
def test_a_bitstream_decodes_to_the_same_frames_from_every_container(
    tmp_path: Path, av1_packets: list[bytes], suffix: str, fps: Fraction
) -> None:
    path = tmp_path / f"a{suffix}"
    write_bitstream(path, iter(av1_packets), 64, 48, fps)
    clip = Clip.open(path)
    assert (clip.width, clip.height, clip.frame_count) == (64, 48, 24)
    assert clip.fps == fps
    assert list(clip) == decoded(av1_packets)


def decoded(packets: list[bytes]) -> list[Frame]:
    """Frames as the decoder gives them, without any container."""
    decoder = cast("av.VideoCodecContext", av.CodecContext.create("libdav1d", "r"))
    pictures = [picture for data in packets for picture in decoder.decode(av.Packet(data))] + decoder.decode(None)
    return [Frame(picture.to_ndarray().reshape(-1).astype(np.uint8), 64, 48) for picture in pictures]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_timestamps_count_frames(tmp_path: Path, av1_packets: list[bytes], suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_bitstream(path, av1_packets, 64, 48, NTSC)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        times = [float(frame.time) for frame in container.decode(stream)]
        assert (container.duration or 0) / av.time_base == pytest.approx(24 / NTSC, abs=1e-3)
    assert times == pytest.approx([float(number / NTSC) for number in range(24)], abs=1e-3)


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_containers_carry_the_codec_configuration(tmp_path: Path, av1_packets: list[bytes], suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_bitstream(path, av1_packets, 64, 48, 30)
    with av.open(str(path)) as container:
        configuration = container.streams.video[0].codec_context.extradata
    assert configuration is not None
    assert configuration[0] == 0x81  # marker and version of an av1C record
    assert configuration[4:] in av1_packets[0]  # its sequence header is the stream's own


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_packets_give_the_same_file(tmp_path: Path, av1_packets: list[bytes], suffix: str) -> None:
    one, two = tmp_path / f"1{suffix}", tmp_path / f"2{suffix}"
    for path in (one, two):
        write_bitstream(path, av1_packets, 64, 48, 30)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, av1_packets: list[bytes], suffix: str, stop: type[BaseException]
) -> None:
    def packets() -> Iterator[bytes]:
        yield from av1_packets[:5]
        raise stop

    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"the old file")
    with pytest.raises(stop):
        write_bitstream(path, packets(), 64, 48, 30)
    assert path.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_an_aborted_writer_leaves_nothing(tmp_path: Path) -> None:
    writer = Y4mWriter(tmp_path / "a.y4m", 64, 48, 30)
    writer.write(Frame.empty(64, 48))
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_harmless_and_writing_after_it_is_refused(tmp_path: Path) -> None:
    with IvfWriter(tmp_path / "a.ivf", 64, 48, 30) as writer:
        writer.write(b"x")
        writer.close()
        writer.close()
        with pytest.raises(ContentError, match="already complete"):
            writer.write(b"y")
    assert list(IvfReader(tmp_path / "a.ivf")) == [b"x"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [*SUFFIXES, ".y4m", ".yuv"])
def test_a_full_disk_is_reported_and_nothing_half_written_stays(
    small_disk: Path, av1_packets: list[bytes], suffix: str
) -> None:
    path = small_disk / f"a{suffix}"
    path.write_bytes(b"the old file")
    with pytest.raises(ContentError, match=r"cannot write .*: the disk is full .*; free some space"):
        write_too_much(path, av1_packets)
    assert path.read_bytes() == b"the old file"
    assert list(small_disk.iterdir()) == [path]


def write_too_much(path: Path, packets: list[bytes]) -> None:
    if path.suffix in {".y4m", ".yuv"}:
        write_video(path, Clip.from_frames([Frame.empty(320, 240)] * 12, fps=30))
    else:
        write_bitstream(path, packets * (2_000_000 // sum(map(len, packets))), 64, 48, 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.ivf", "a.mp4", "a.y4m"])
def test_folders_that_are_missing_or_read_only_are_reported(
    tmp_path: Path, read_only_folder: Path, av1_packets: list[bytes], name: str
) -> None:
    for folder, problem in ((tmp_path / "none", "no such file or folder"), (read_only_folder, "read-only|permission")):
        with pytest.raises(ContentError, match=f"cannot write .*{name}: .*({problem}).*; c"):
            write_too_much(folder / name, av1_packets)
    (tmp_path / name).mkdir()
    with pytest.raises(ContentError, match="it is a folder"):
        write_too_much(tmp_path / name, av1_packets)
    (tmp_path / "file").touch()
    with pytest.raises(ContentError, match="a part of the path is a file"):
        write_too_much(tmp_path / "file" / name, av1_packets)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_packets_are_no_file(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ContentError, match="no packets to write"):
        write_bitstream(tmp_path / f"a{suffix}", [], 64, 48, 30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_packets_that_are_not_av1_are_refused(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ContentError, match="are these AV1 packets"):
        write_bitstream(tmp_path / f"a{suffix}", [b"garbage" * 20] * 3, 64, 48, 30)
    assert list(tmp_path.iterdir()) == []


def test_unknown_suffixes_name_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"choose from \.ivf, \.mkv, \.mp4, \.webm"):
        write_bitstream(tmp_path / "a.avi", [b"x"], 64, 48, 30)
    with pytest.raises(ConfigError, match=r"\.y4m"):
        write_video(tmp_path / "a.gif", Clip.from_frames(noise_frames(4, 4, 1), fps=30))


def test_frames_of_another_size_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ContentError, match="frame is 4x4, the file is 8x8"),
        Y4mWriter(tmp_path / "a.y4m", 8, 8, 30) as out,
    ):
        out.write(Frame.empty(4, 4))
    assert list(tmp_path.iterdir()) == []


def test_an_ivf_cut_short_delivers_whole_packets_and_says_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.ivf"
    with IvfWriter(path, 64, 48, 30) as writer:
        for size in (10, 20, 30):
            writer.write(bytes(size))
    data = path.read_bytes()
    for removed, found in ((5, "37 bytes are left"), (35, "7 bytes are left"), (42, "the file ends before it")):
        path.write_bytes(data[:-removed])
        seen: list[bytes] = []
        with pytest.raises(ContentError, match=f"packet 2 of 3 is cut short .{found}"):
            seen.extend(IvfReader(path))
        assert seen == [bytes(10), bytes(20)]


def test_an_ivf_that_was_never_finished_reads_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.ivf"
    with IvfWriter(path, 64, 48, 30) as writer:
        writer.write(b"one")
    data = bytearray(path.read_bytes())
    data[24:28] = bytes(4)
    path.write_bytes(data)
    assert list(IvfReader(path)) == [b"one"]


def test_what_is_no_ivf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ivf"
    path.write_bytes(b"RIFF" + bytes(60))
    with pytest.raises(ContentError, match="is not IVF: it begins with b'RIFF'"):
        IvfReader(path)
    with pytest.raises(ContentError, match="no such file"):
        IvfReader(tmp_path / "gone.ivf")


def test_y4m_can_be_read_by_others(tmp_path: Path) -> None:
    frames = noise_frames(32, 16, 4)
    path = tmp_path / "a.y4m"
    write_video(path, Clip.from_frames(frames, fps=NTSC))
    with av.open(str(path), "r", format="yuv4mpegpipe") as container:
        stream = container.streams.video[0]
        assert stream.average_rate == NTSC
        pictures = [picture.to_ndarray() for picture in container.decode(stream)]
    assert [Frame(picture.reshape(-1).astype(np.uint8), 32, 16) for picture in pictures] == frames
