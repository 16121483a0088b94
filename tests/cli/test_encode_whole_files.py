"""`reel encode` on files as people have them: what they carry arrives, what they lack or break is said in a line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.content.read.carried import read_presentation
from tests.content.makers import encode, smooth_frames
from tests.content.whole_files import Whole, ffprobe, picture
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

QUICK = ["--crf", "50", "--preset", "13", "--policy", "crf-replay"]
HDR10 = (
    "log-level=none:hdr10=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:range=full:max-cll=1000,400:"
    "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def encoded(capsys: pytest.CaptureFixture[str], source: str, output: str, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["encode", source, "-o", output, *QUICK, *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_streams_go_along_and_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Whole().write(Path("in.mkv"))
    before = Path("in.mkv").read_bytes()
    assert main(["encode", "in.mkv", "-o", "out.mp4", *QUICK]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("lost")]
    assert said[0] == "lost   attachment font.ttf: mp4 cannot hold it, mkv can"
    with av.open("out.mp4") as found:
        assert [stream.type for stream in found.streams] == ["video", "audio", "audio", "subtitle", "data", "video"]
    assert encoded(capsys, "in.mkv", "out.mp4", "--video-only")["left_out"] == []
    with av.open("out.mp4") as found:
        assert [stream.type for stream in found.streams] == ["video"]
    assert Path("in.mkv").read_bytes() == before


@pytest.mark.parametrize("output", ["out.mkv", "out.mp4", "out.webm", "out.ivf"])
def test_hdr10_is_in_the_stream_and_in_the_container(capsys: pytest.CaptureFixture[str], output: str) -> None:
    encode(Path("in.mkv"), smooth_frames(64, 64, 6), codec="libx265", options={"x265-params": HDR10})
    wanted = read_presentation(Path("in.mkv"))
    assert (wanted.primaries, wanted.transfer, wanted.matrix, wanted.light) == (9, 16, 9, (1000, 400))
    assert encoded(capsys, "in.mkv", output)["left_out"] == []
    found = read_presentation(Path(output))
    assert (found.primaries, found.transfer, found.matrix, found.color_range) == (9, 16, 9, 2)
    assert found.light == wanted.light
    assert found.mastering is not None
    assert wanted.mastering is not None
    assert found.mastering.green == pytest.approx(wanted.mastering.green, abs=1e-4)
    frame = ffprobe(Path(output), "frames")["frames"][0]
    assert (frame["color_primaries"], frame["color_transfer"], frame["color_space"], frame["color_range"]) == (
        "bt2020",
        "smpte2084",
        "bt2020nc",
        "pc",
    )
    assert {data["side_data_type"] for data in frame["side_data_list"]} >= {
        "Mastering display metadata",
        "Content light level metadata",
    }


def test_a_variable_rate_is_budgeted_by_its_true_duration(capsys: pytest.CaptureFixture[str]) -> None:
    starts = [0, 256, 512, *(512 + 3072 * n for n in range(1, 20))]  # 50 frames/s, then 4
    Whole(starts=starts, audio=(), subtitles=None).write(Path("in.mkv"))
    figures = encoded(capsys, "in.mkv", "out.mkv")
    seconds = (starts[-1] + 3072) / 12800
    assert figures["kbps"] == pytest.approx(figures["size_bytes"] * 8 / seconds / 1000, rel=0.06)
    pictures = ffprobe(Path("out.mkv"), "packets")["packets"]
    shown = [Fraction(packet["pts_time"]) for packet in pictures if packet["stream_index"] == 0]
    assert all(abs(a - Fraction(b, 12800)) <= Fraction(1, 1000) for a, b in zip(shown, starts, strict=True))


def sound_alone(path: Path, cover: bool = False) -> Path:
    whole = Whole(attachment=False, cover=False, subtitles=None).write(path.with_name("whole.mkv"))
    with av.open(str(whole)) as source, av.open(str(path), "w") as target:
        copy = target.add_stream_from_template(source.streams.audio[0])
        if cover:
            target.add_attachment("cover.jpg", "image/jpeg", picture())
        for packet in source.demux(source.streams.audio[0]):
            if packet.size:
                packet.stream = copy
                target.mux(packet)
    whole.unlink()
    return path


def changing_size(path: Path) -> Path:
    parts = [
        encode(path.with_name(f"{width}.h264"), smooth_frames(width, 48, 60), codec="libx264", options={"bf": "0"})
        for width in (64, 96)
    ]
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    for part in parts:
        part.unlink()
    return path


def interlaced(path: Path) -> Path:
    return encode(path, smooth_frames(64, 64, 4), codec="libx264", options={"flags": "+ildct", "x264-params": "tff=1"})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (sound_alone, "holds no video (audio found); name another file"),
        (lambda path: sound_alone(path, cover=True), "holds no video (audio, cover picture found); name another file"),
        (changing_size, "is 96x48, the clip began with 64x48; split the file there or scale it to one size"),
        (interlaced, "frame 0 is interlaced (two fields in one picture); make whole pictures of them with"),
    ],
)
def test_what_cannot_be_encoded_is_refused_in_a_line(
    folder: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], Path], reason: str
) -> None:
    source = make(folder / "in.mkv")
    before = source.read_bytes()
    assert main(["encode", "in.mkv", "-o", "out.mkv", *QUICK]) == 1
    said = capsys.readouterr().err
    assert reason in said
    assert "Traceback" not in said
    assert [path.name for path in folder.iterdir()] == ["in.mkv"]
    assert source.read_bytes() == before


def test_broken_sound_is_copied_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Whole(audio=("aac",), subtitles=None, attachment=False, cover=False).write(Path("in.mp4"))
    with av.open("in.mp4") as container:
        places = [(packet.pos, packet.size) for packet in container.demux(audio=0) if packet.size]
    data = bytearray(Path("in.mp4").read_bytes())
    for place, size in places[10:14]:
        data[place : place + size] = b"\xff" * size  # type: ignore[operator]
    Path("in.mp4").write_bytes(data)
    encoded(capsys, "in.mp4", "out.mkv")
    for name in ("in.mp4", "out.mkv"):
        with av.open(name) as container:
            sound = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
            assert len(sound) == len(places)
            assert set(sound[10]) == {255}


def test_sound_that_the_container_refuses_packet_by_packet_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """AAC of a broadcast has a header in each packet, which mp4 wants removed: a broken one cannot be."""
    Whole(audio=("aac",), subtitles=None, attachment=False, cover=False, chapters=False).write(Path("in.ts"))
    data = np.fromfile("in.ts", np.uint8).reshape(-1, 188)
    sound = np.flatnonzero(((data[:, 1] & 31).astype(int) << 8 | data[:, 2]) == 0x101)
    data[sound[8:20], 20:] = 0x55
    data.tofile("in.ts")
    said = encoded(capsys, "in.ts", "out.mp4")["left_out"]
    assert [line for line in said if line.startswith("audio 1 (aac, deu): ") and line.endswith("broken packets")]
    with av.open("out.mp4") as found:
        assert sum(packet.size > 0 for packet in found.demux(audio=0)) > 20


def uncompressed(path: Path) -> Path:
    """Sound that makes up nearly all of the output: 192 kB."""
    return Whole(audio=("pcm_s16le",), subtitles=None, attachment=False, cover=False).write(path)


def test_a_disk_that_fills_at_ninety_percent_leaves_nothing(
    small_disk: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = uncompressed(Path("in.mkv")).read_bytes()
    for suffix in (".mkv", ".mp4"):
        output = small_disk / f"out{suffix}"
        encoded(capsys, "in.mkv", str(output))  # another file system than the source's
        room = output.stat().st_size
        output.write_bytes(b"old")
        (small_disk / "filler").write_bytes(bytes((1 << 20) - room * 9 // 10 - 8192))
        assert main(["encode", "in.mkv", "-o", str(output), *QUICK]) == 1
        said = capsys.readouterr().err
        assert f"cannot write {output}: the disk is full" in said
        assert output.read_bytes() == b"old"
        (small_disk / "filler").unlink()
        output.unlink()
        assert list(small_disk.iterdir()) == []
    assert Path("in.mkv").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["small", "in.mkv"]


def test_a_limit_on_file_size_ends_it_with_a_line_and_no_process_is_left(folder: Path) -> None:
    uncompressed(Path("in.mkv"))
    command = [sys.executable, "-m", "reelrl.cli.main", "encode", "in.mkv", "-o", "out.mkv", *QUICK]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)),
    ) as program:
        said = program.communicate(timeout=HANG_S)[1]
    assert program.returncode == 1
    assert "cannot write out.mkv: the file grew past the size limit" in said
    with pytest.raises(ProcessLookupError):
        os.killpg(program.pid, 0)
    assert [path.name for path in folder.iterdir()] == ["in.mkv"]


def test_the_same_command_writes_the_same_file_with_all_its_streams(capsys: pytest.CaptureFixture[str]) -> None:
    Whole().write(Path("in.mkv"))
    for name in ("a.mkv", "b.mkv"):
        encoded(capsys, "in.mkv", name)
    assert Path("a.mkv").read_bytes() == Path("b.mkv").read_bytes()
