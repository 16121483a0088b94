"""What a source carries besides its pixels arrives in the file that is written, or is said to be left out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reelrl.content.read.carried import Carried, MasteringDisplay, Presentation, read_carried, read_presentation
from reelrl.content.read.timing import Timing
from reelrl.content.write.arrival import alike
from reelrl.content.write.video import write_bitstream
from reelrl.errors import ContentError, ReelError
from tests.content.whole_files import FONT, SIZE, TICK, Whole, ffprobe, picture
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

CONTAINERS = [".mkv", ".mp4", ".webm"]
SCREEN = MasteringDisplay((0.68, 0.32), (0.265, 0.69), (0.15, 0.06), (0.3127, 0.329), (0.005, 1000.0))
QUARTER_TURN = (0, -65536, 0, 65536, 0, 0, 0, 0, 1 << 30)
PRESENTATIONS = {
    "bt709": Presentation(primaries=1, transfer=1, matrix=1, color_range=1),
    "hdr10": Presentation(primaries=9, transfer=16, matrix=9, color_range=1, mastering=SCREEN, light=(1000, 400)),
    "hlg": Presentation(primaries=9, transfer=18, matrix=9, color_range=1),
    "anamorphic": Presentation(aspect=Fraction(64, 45), color_range=1),
    "turned": Presentation(display_matrix=QUARTER_TURN, color_range=1),
    "anamorphic and turned": Presentation(aspect=Fraction(32, 27), display_matrix=QUARTER_TURN, color_range=1),
}


def write(path: Path, packets: list[bytes], carried: Carried | None = None) -> list[str]:
    return write_bitstream(path, packets, *SIZE, 25, carried)


def times(path: Path, kind: str = "video", place: int = 0) -> list[Fraction]:
    """When the packets of a stream are shown, in seconds and in order."""
    with av.open(str(path)) as container:
        stream = [stream for stream in container.streams if stream.type == kind][place]
        return sorted(packet.pts * packet.time_base for packet in container.demux(stream) if packet.pts is not None)


def contents(path: Path, kind: str, place: int = 0) -> list[bytes]:
    with av.open(str(path)) as container:
        stream = [stream for stream in container.streams if stream.type == kind][place]
        return [bytes(packet) for packet in container.demux(stream) if packet.size]


def described(path: Path) -> list[tuple[Any, ...]]:
    """Each stream with what people see of it, in order."""
    with av.open(str(path)) as container:
        return [(s.type, s.metadata.get("language"), s.metadata.get("title"), s.disposition) for s in container.streams]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Whole().write(tmp_path_factory.mktemp("whole") / "whole.mkv")


@st.composite
def timings(draw: st.DrawFn) -> Timing:
    """Twenty-four pictures, each of them shown for a while of its own."""
    first = draw(st.integers(0, 100_000))
    steps = draw(st.lists(st.integers(90, 20_000), min_size=24, max_size=24))
    starts = [first + sum(steps[:number]) for number in range(24)]
    return Timing(Fraction(1, 90_000), starts, steps[-1])


@pytest.mark.parametrize("suffix", [*CONTAINERS, ".ivf"])
@given(timing=timings())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_timestamp_arrives(tmp_path: Path, av1_packets: list[bytes], suffix: str, timing: Timing) -> None:
    path = tmp_path / f"a{suffix}"
    assert write(path, av1_packets, Carried(timing=timing)) == []
    wanted = [start * timing.time_base for start in timing.starts]
    # Matroska counts in milliseconds.
    precision = Fraction(1, 2000) if suffix in (".mkv", ".webm") else 0
    assert all(abs(a - b) <= precision for a, b in zip(times(path), wanted, strict=True))


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("look", PRESENTATIONS)
def test_pictures_are_shown_as_the_source_shows_them(
    tmp_path: Path, av1_packets: list[bytes], suffix: str, look: str
) -> None:
    path = tmp_path / f"a{suffix}"
    assert write(path, av1_packets, Carried(presentation=PRESENTATIONS[look])) == []
    found = read_presentation(path)
    assert replace(found, mastering=None) == replace(PRESENTATIONS[look], mastering=None)
    if PRESENTATIONS[look].mastering is not None:
        assert found.mastering is not None
        assert found.mastering.red == pytest.approx(SCREEN.red, abs=1e-4)
        assert found.mastering.white == pytest.approx(SCREEN.white, abs=1e-4)
        assert found.mastering.luminance == pytest.approx(SCREEN.luminance, rel=1e-3)


def test_a_dark_level_in_the_steps_of_av1_is_the_same_and_another_is_not() -> None:
    dark = replace(SCREEN, luminance=(0.0001, 1000.0))
    assert alike(dark, replace(dark, luminance=(2 / 16384, 1000.0)))
    assert not alike(dark, SCREEN)


@pytest.mark.parametrize("look", ["hdr10", "anamorphic", "turned", "anamorphic and turned"])
@pytest.mark.parametrize("suffix", CONTAINERS)
def test_an_independent_reader_finds_shape_rotation_and_hdr10(
    tmp_path: Path, av1_packets: list[bytes], suffix: str, look: str
) -> None:
    path, shown = tmp_path / f"a{suffix}", PRESENTATIONS[look]
    write(path, av1_packets, Carried(presentation=shown))
    stream = ffprobe(path, "streams")["streams"][0]
    assert Fraction(stream.get("sample_aspect_ratio", "1:1").replace(":", "/")) == shown.aspect
    beside = {data["side_data_type"]: data for data in stream.get("side_data_list", ())}
    assert ("Display Matrix" in beside) == (shown.display_matrix is not None)
    if shown.display_matrix:
        assert beside["Display Matrix"]["rotation"] == 90
    if shown.mastering is not None:
        assert beside["Content light level metadata"]["max_content"] == 1000
        assert float(Fraction(beside["Mastering display metadata"]["green_y"])) == pytest.approx(0.69)


def test_a_matroska_file_holds_everything(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    path = tmp_path / "a.mkv"
    assert write(path, av1_packets, read_carried(whole)) == []
    assert described(path) == described(whole)
    for kind, place in (("audio", 0), ("audio", 1), ("subtitle", 0)):
        assert contents(path, kind, place) == contents(whole, kind, place)
        assert times(path, kind, place) == times(whole, kind, place)
    assert times(path) == times(whole)
    with av.open(str(whole)) as wanted, av.open(str(path)) as found:
        assert found.chapters() == wanted.chapters()
        assert [found.metadata[key] for key in ("title", "ARTIST", "COMMENT")] == ["The film", "Somebody", "For a test"]
        font = found.streams[4]
        assert isinstance(font, av.stream.AttachmentStream)
        assert (font.name, font.mimetype, font.data) == ("font.ttf", "font/ttf", FONT)
    assert contents(path, "video", 1) == [picture()]


def test_mp4_holds_all_but_attachments(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    path = tmp_path / "a.mp4"
    assert write(path, av1_packets, read_carried(whole)) == [
        "attachment font.ttf: mp4 cannot hold it, mkv can",
        "disposition original of video 1 (h264, eng): mp4 has no place for it",
    ]
    for place in (0, 1):
        assert contents(path, "audio", place) == contents(whole, "audio", place)
    assert contents(path, "video", 1) == [picture()]
    texts = [text[2 : 2 + text[1]] for text in contents(path, "subtitle") if text[1]]  # between them are empty ones
    assert texts == [b"Hello there", b"Two\nlines"]
    with av.open(str(path)) as found:
        assert [chapter["metadata"]["title"] for chapter in found.chapters()] == ["Opening", "Ending"]
        assert [stream.metadata["language"] for stream in list(found.streams)[:4]] == ["eng", "deu", "fra", "eng"]
        assert [found.metadata[key] for key in ("title", "artist")] == ["The film", "Somebody"]


def test_subtitles_with_styles_are_copied_or_left_out(tmp_path: Path, av1_packets: list[bytes]) -> None:
    source = Whole(subtitles="ass").write(tmp_path / "source.mkv")
    assert write(tmp_path / "a.mkv", av1_packets, read_carried(source)) == []
    assert contents(tmp_path / "a.mkv", "subtitle") == contents(source, "subtitle")
    for suffix, why in ((".mp4", "mp4 cannot hold it, mkv can"), (".webm", "webm holds plain text only, mkv all")):
        said = write(tmp_path / f"a{suffix}", av1_packets, read_carried(source))
        assert f"subtitle 1 (ass, eng): {why}" in said


def test_bitmap_subtitles_are_copied_or_left_out(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    source, shown = tmp_path / "source.mkv", b"\x16\0\x0b" + bytes(11) + b"\x80\0\0"  # a display set of Blu-ray's kind
    with av.open(str(whole)) as other, av.open(str(source), "w") as made:
        pictures = made.add_stream_from_template(other.streams.video[0], opaque=True)
        bitmaps = made.add_mux_stream("hdmv_pgs_subtitle", time_base=Fraction(1, 1000))
        for packet in other.demux(video=0):
            if packet.size:
                packet.stream = pictures
                made.mux(packet)
        bitmap = av.Packet(shown)
        bitmap.stream, bitmap.pts, bitmap.dts, bitmap.duration = bitmaps, 200, 200, 300
        bitmap.time_base = Fraction(1, 1000)
        made.mux(bitmap)
    assert write(tmp_path / "a.mkv", av1_packets, read_carried(source)) == []
    assert contents(tmp_path / "a.mkv", "subtitle") == [shown]
    for suffix, why in ((".mp4", "mp4 cannot hold it, mkv can"), (".webm", "webm holds plain text only, mkv all")):
        said = write(tmp_path / f"a{suffix}", av1_packets, read_carried(source))
        assert f"subtitle 1 (hdmv_pgs_subtitle): {why}" in said


def test_webm_says_what_it_cannot_hold(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    path = tmp_path / "a.webm"
    assert write(path, av1_packets, read_carried(whole))[:3] == [
        "audio 1 (aac, deu): webm holds opus and vorbis only, mkv all",
        "attachment font.ttf: webm cannot hold it, mkv can",
        "cover picture (mjpeg): webm cannot hold it, mkv can",
    ]
    assert contents(path, "audio") == contents(whole, "audio", 1)
    assert contents(path, "subtitle") == [b"Hello <i>there</i>", b"Two\nlines"]


def test_ivf_holds_the_video_alone(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    lines = write(tmp_path / "a.ivf", av1_packets, read_carried(whole))
    assert [line.split(":")[0] for line in lines] == [
        "audio 1 (aac, deu)",
        "audio 2 (opus, fra)",
        "subtitle 1 (subrip, eng)",
        "attachment font.ttf",
        "cover picture (mjpeg)",
        "chapters",
        "tags title, COMMENT, ARTIST",
    ]


@pytest.mark.parametrize("suffix", [*CONTAINERS, ".ivf"])
def test_video_only_leaves_the_rest_out(tmp_path: Path, whole: Path, av1_packets: list[bytes], suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    assert write(path, av1_packets, read_carried(whole, video_only=True)) == []
    with av.open(str(path)) as found:
        assert len(found.streams) == 1
        assert found.chapters() == []
        assert "title" not in found.metadata


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_an_independent_reader_finds_the_streams(
    tmp_path: Path, whole: Path, av1_packets: list[bytes], suffix: str
) -> None:
    path = tmp_path / f"a{suffix}"
    write(path, av1_packets, read_carried(whole))
    wanted, found = (ffprobe(file, "streams", "chapters", "format") for file in (whole, path))
    kept = {".mkv": [0, 1, 2, 3, 4, 5], ".mp4": [0, 1, 2, 3], ".webm": [0, 2, 3]}[suffix]
    for place, number in enumerate(kept):
        want, have = wanted["streams"][number], found["streams"][place]
        assert have["codec_type"] == want["codec_type"]
        assert have.get("tags", {}).get("language") == want.get("tags", {}).get("language")
        assert float(have["start_time"]) == pytest.approx(float(want["start_time"]), abs=0.11)
    assert [c["tags"]["title"] for c in found["chapters"]] == ["Opening", "Ending"]
    assert found["format"]["tags"]["title"] == "The film"


def test_the_same_packets_give_the_same_file(tmp_path: Path, whole: Path, av1_packets: list[bytes]) -> None:
    for suffix in CONTAINERS:
        paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            write(path, av1_packets, read_carried(whole))
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_sound_that_begins_before_zero_moves_nothing(tmp_path: Path, av1_packets: list[bytes], suffix: str) -> None:
    source = Whole(subtitles=None, attachment=False, cover=False, audio=("aac",)).write(tmp_path / "source.mp4")
    assert times(source, "audio")[0] < 0  # a packet for the decoder alone, hidden by an edit list
    path = tmp_path / f"a{suffix}"
    assert write(path, av1_packets, read_carried(source)) == []
    assert contents(path, "audio") == contents(source, "audio")
    assert times(path) == times(source)
    assert all(abs(a - b) <= 0.001 for a, b in zip(times(path, "audio"), times(source, "audio"), strict=True))


def test_the_order_of_streams_is_the_source_s(tmp_path: Path, av1_packets: list[bytes]) -> None:
    source = Whole(audio_first=True).write(tmp_path / "source.mkv")
    path = tmp_path / "a.mkv"
    assert write(path, av1_packets, read_carried(source)) == []
    assert [kind for kind, *_ in described(path)] == ["audio", "audio", "video", "subtitle", "attachment", "video"]


def test_what_belongs_to_the_first_pictures_goes_along_with_them(
    tmp_path: Path, whole: Path, av1_packets: list[bytes]
) -> None:
    path = tmp_path / "a.mkv"
    assert write(path, av1_packets[:10], read_carried(whole).first(10)) == []
    assert times(path) == times(whole)[:10]
    assert 0.35 < times(path, "audio")[-1] < 0.4
    assert len(contents(path, "subtitle")) == 1
    with av.open(str(path)) as found:
        assert [chapter["metadata"]["title"] for chapter in found.chapters()] == ["Opening"]


def test_more_packets_than_the_source_has_pictures_are_refused(
    tmp_path: Path, whole: Path, av1_packets: list[bytes]
) -> None:
    with pytest.raises(ContentError, match="packet 10 has no time: the source shows 10 pictures"):
        write(tmp_path / "a.mkv", av1_packets, read_carried(whole).first(10))
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_fails_in_the_middle_leaves_nothing(
    tmp_path: Path, whole: Path, av1_packets: list[bytes]
) -> None:
    def failing() -> Iterator[bytes]:
        yield from av1_packets[:12]
        raise KeyboardInterrupt

    for suffix in CONTAINERS:
        with pytest.raises(KeyboardInterrupt):
            write_bitstream(tmp_path / f"a{suffix}", failing(), *SIZE, 25, read_carried(whole))
    assert list(tmp_path.iterdir()) == []


def test_key_frames_are_marked(tmp_path: Path, av1_packets: list[bytes]) -> None:
    for suffix in CONTAINERS:
        path = tmp_path / f"a{suffix}"
        write(path, av1_packets, Carried(timing=Timing(TICK, range(0, 512 * 24, 512), 512)))
        with av.open(str(path)) as found:
            keys = [packet.is_keyframe for packet in found.demux(video=0) if packet.size]
            assert keys == [True] + [False] * 23
            assert found.streams.video[0].average_rate == 25


@pytest.mark.parametrize("seed", range(3))
def test_of_a_damaged_source_comes_a_whole_file_or_a_line(
    tmp_path: Path, whole: Path, av1_packets: list[bytes], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for number in range(12):
        data = bytearray(whole.read_bytes())
        for place in rng.integers(0, 2000 if number % 2 else len(data), size=1 + 3 * number):
            data[place] = rng.integers(256)
        source, path = tmp_path / "source.mkv", tmp_path / f"a{CONTAINERS[number % 3]}"
        source.write_bytes(data)
        try:
            carried = read_carried(source).first(24)
            pictures = len(carried.timing.starts) if carried.timing else 24
            write(path, av1_packets[:pictures], carried)
        except ReelError:
            continue
        assert len(contents(path, "video")) == min(pictures, 24)
    assert {path.name for path in tmp_path.iterdir()} <= {"source.mkv", "a.mkv", "a.mp4", "a.webm"}


def test_wherever_a_disk_ends_the_reason_is_said_and_nothing_is_left(
    tmp_path: Path, whole: Path, av1_packets: list[bytes]
) -> None:
    """In a process of its own, whose files may not grow beyond a size: from a tenth of what is needed to nearly all."""
    (tmp_path / "out").mkdir()
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from reelrl.content.read.carried import read_carried\n"
        "from reelrl.content.write.video import IvfReader, write_bitstream\n"
        "from reelrl.errors import ContentError\n"
        "carried, packets = read_carried(Path(sys.argv[1])), list(IvfReader(sys.argv[2]))\n"
        "for suffix in ('.mkv', '.mp4', '.webm'):\n"
        "    path = Path(sys.argv[3]) / f'a{suffix}'\n"
        "    write_bitstream(path, packets, 64, 48, 25, carried); size = path.stat().st_size; path.unlink()\n"
        "    for tenth in range(1, 11):\n"
        "        resource.setrlimit(resource.RLIMIT_FSIZE, (size * tenth // 10 - 1, resource.RLIM_INFINITY))\n"
        "        try: write_bitstream(path, packets, 64, 48, 25, carried)\n"
        "        except ContentError as error: print(error)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
    )
    write(tmp_path / "packets.ivf", av1_packets)
    command = [sys.executable, "-c", code, str(whole), str(tmp_path / "packets.ivf"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 30
    assert all("the file grew past the size limit" in line for line in said)
    assert done.stderr == ""
    assert list((tmp_path / "out").iterdir()) == []
