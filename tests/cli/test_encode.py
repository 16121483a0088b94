"""`reel encode` on real files: what it writes, tells and refuses, and that nothing is left when it is stopped."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from reelrl.cli.main import main
from reelrl.content.clip import Clip, concatenate
from reelrl.content.quality import psnr
from reelrl.content.write.video import write_video
from tests.content.makers import encode, smooth_frames
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.makers import deep_scene, scene
from tests.waiting import HANG_S

CLIP = scene("street", 40, (64, 64))
QUICK = ["--preset", "12", "--bitrate", "40"]
REPLAY = ["--policy", "crf-replay"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_video("in.y4m", CLIP)
    return tmp_path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["encode", "in.y4m", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", ["out.mkv", "out.mp4", "out.webm", "out.ivf"])
def test_the_stream_plays_and_is_what_the_summary_says(capsys: pytest.CaptureFixture[str], name: str) -> None:
    printed = figures(capsys, "-o", name, *QUICK, *REPLAY)
    clip = Clip.open(name)
    assert (clip.width, clip.height, clip.frame_count, clip.fps) == (64, 64, 40, CLIP.fps)
    assert printed["kbps"] == pytest.approx(printed["size_bytes"] * 8 / CLIP.duration_s / 1000)
    assert 0 <= Path(name).stat().st_size - printed["size_bytes"] < 2500
    assert printed["rate_error"] == pytest.approx(printed["kbps"] / 40 - 1)
    assert (printed["passes"], printed["frames"], printed["target_kbps"]) == (2, 40, 40)


def test_the_usual_policy_meets_the_bitrate_after_a_probe(capsys: pytest.CaptureFixture[str]) -> None:
    printed = figures(capsys, "-o", "out.mkv", *QUICK)
    assert (printed["policy"], printed["passes"]) == ("rate-model", 2)
    assert abs(printed["rate_error"]) < 0.15  # forty frames leave few decisions to correct with


def test_low_delay_stays_within_a_second_of_the_bitrate(capsys: pytest.CaptureFixture[str]) -> None:
    printed = figures(capsys, "-o", "out.mkv", "--structure", "low_delay", *QUICK)
    assert (printed["policy"], printed["passes"]) == ("leaky-bucket", 1)
    assert abs(printed["rate_error"]) * CLIP.duration_s < 1


def test_at_a_quality_the_bits_of_the_encoder_alone_are_spent(capsys: pytest.CaptureFixture[str]) -> None:
    printed = figures(capsys, "-o", "out.mkv", "--preset", "12", "--crf", "45", *REPLAY, "--compare")
    assert printed["compare"]["mode"] == "crf"
    assert printed["compare"]["rate_error"] == pytest.approx(0, abs=1e-9)
    assert abs(printed["rate_error"]) < 0.1  # whole QPs on a tiny picture


def test_ten_bits_are_kept_made_and_left_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    deep = deep_scene("street", 17, (64, 64))
    write_video("deep.y4m", deep)
    quick = ["--preset", "12", "--crf", "45", *REPLAY, "--json", "-o", "out.mkv"]
    for source, flags, depth in (
        ("deep.y4m", [], 10),
        ("deep.y4m", ["--depth", "8"], 8),
        ("in.y4m", ["--depth", "10", "--frames", "17"], 10),
    ):
        capsys.readouterr()
        assert main(["encode", source, *quick, *flags]) == 0
        printed = json.loads(capsys.readouterr().out)
        coded = Clip.open("out.mkv")
        assert (printed["depth"], coded.depth, coded.frame_count) == (depth, depth, 17)
        source_clip = Clip.open(source).at_depth(depth)
        measured = [psnr(frame, shown).y for frame, shown in zip(source_clip, coded, strict=False)]
        assert printed["psnr_y"] == pytest.approx(sum(measured) / 17)


def test_other_chroma_is_converted_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.y4m").write_bytes(b"YUV4MPEG2 W64 H64 F25:1 Ip C444\n" + 3 * (b"FRAME\n" + bytes(3 * 64 * 64)))
    encode(Path("wide.mkv"), smooth_frames(64, 64, 3), pixel_format="yuv444p")
    for name, form in (("wide.y4m", "C444"), ("wide.mkv", "yuv444p")):
        command = ["encode", name, "-o", f"{name}.mp4", "--preset", "12", "--crf", "45"]
        assert main(command) == 1
        assert f"has pixel format {form}" in capsys.readouterr().err
        assert not Path(f"{name}.mp4").exists()
        assert main([*command, "--convert-420"]) == 0
        assert Clip.open(f"{name}.mp4").frame_count == 3


def test_crf_may_have_quarters(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-o", "out.mkv", "--preset", "12", *REPLAY, "--compare"]
    sizes = [figures(capsys, *flags, "--crf", crf)["compare"]["size_bytes"] for crf in ("40", "40.5", "41")]
    assert len(set(sizes)) == 3
    assert main(["encode", "in.y4m", *flags, "--crf", "40.3"]) == 1
    assert "--crf 40.3; give 1 to 63, in quarter steps" in capsys.readouterr().err


def test_decisions_are_exported_for_stock_tools(capsys: pytest.CaptureFixture[str]) -> None:
    figures(
        capsys,
        "-o",
        "out.mkv",
        *QUICK,
        "--export-qpfile",
        "qp.txt",
        "--export-zones",
        "zones.txt",
        "--export-scenes",
        "s.json",
    )
    assert len(Path("qp.txt").read_text().splitlines()) == CLIP.frame_count
    zones = [line.split() for line in Path("zones.txt").read_text().splitlines()]
    assert [zones[0][0], zones[-1][1]] == ["0", str(CLIP.frame_count)]
    assert json.loads(Path("s.json").read_text())["frames"] == CLIP.frame_count


def test_the_comparison_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encode", "in.y4m", "-o", "out.mkv", *QUICK, *REPLAY, "--compare"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words[:4] == ["policy", "coded", "alone", "differ"]


def test_the_same_command_writes_the_same_file(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.mkv", "b.mkv"):
        figures(capsys, "-o", name, *QUICK)
    assert Path("a.mkv").read_bytes() == Path("b.mkv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["-o", "out.avi", "--bitrate", "40"], 1, "out.avi: unknown kind of file"),
        (["-o", "none/out.mkv", "--bitrate", "40"], 1, "there is no folder none"),
        (["-o", "out.mkv", "--bitrate", "-3"], 1, "--bitrate -3; give kbit/s above zero"),
        (["-o", "out.mkv", "--bitrate", "40", "--policy", "runs/none"], 1, "no run at runs/none"),
        (["-o", "out.mkv", "--bitrate", "40", "--policy", "rate-modle"], 1, "did you mean 'rate-model'"),
        (["-o", "out.mkv", "--bitrate", "40", "--policy", "bola"], 1, "'bola', which is a bitrate controller"),
        (["-o", "out.mkv", "--bitrate", "40", "--policy", "direct-search"], 1, "codes the clip many times"),
        (["-o", "out.mkv", "--crf", "40", "--structure", "low_delay", *REPLAY], 1, "low delay needs kbps"),
        (["-o", "out.mkv"], 2, "--bitrate"),
        (["-o", "out.mkv", "--bitrate", "40", "--crf", "40"], 2, "not allowed with"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, reason: str
) -> None:
    assert main(["encode", "in.y4m", *arguments]) == status
    assert reason in capsys.readouterr().err
    assert names_in(folder) == ["in.y4m"]


@pytest.mark.slow
def test_on_a_terminal_the_passes_are_shown(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "reelrl.cli.main", "encode", "in.y4m", "-o", "out.mkv", *QUICK, *REPLAY]
    done = subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, text=True, timeout=HANG_S, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "prepare" in shown
    assert "100%   40 / 40 frames" in shown
    assert done.stdout.startswith("policy")


@pytest.mark.slow
def test_ctrl_c_leaves_the_old_file_and_nothing_else(folder: Path) -> None:
    Path("out.mkv").write_bytes(b"old")
    write_video("long.y4m", scene("street", 120, (352, 288)))
    before = names_in(folder)
    command = [sys.executable, "-m", "reelrl.cli.main", "encode", "long.y4m", "-o", "out.mkv", "--preset", "4"]
    ours, theirs = pty.openpty()
    with subprocess.Popen([*command, "--bitrate", "300", *REPLAY], stdout=subprocess.PIPE, stderr=theirs) as program:
        os.close(theirs)
        shown = b""
        while b"prepare" not in shown:  # the first bar: the work is under way
            shown += os.read(ours, 1000)
        program.send_signal(signal.SIGINT)
        assert program.wait(HANG_S) == 130
    os.close(ours)
    assert Path("out.mkv").read_bytes() == b"old"
    assert names_in(folder) == before


def test_what_needs_one_piece_is_not_coded_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["encode", "in.y4m", "-o", "out.mkv", *QUICK, "--workers", "1"]
    assert main([*command, "--structure", "low_delay"]) == 1
    assert "low delay needs the file in one piece; leave --workers and --resume out" in capsys.readouterr().err
    assert main([*command[:-1], "-3"]) == 1
    assert "--workers -3; use 1 or more, or 0 for one per core" in capsys.readouterr().err
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == 1


def test_a_long_file_that_needs_one_piece_is_coded_in_one_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    write_video("long.y4m", replace(CLIP, fps=Fraction(1)))
    said = "note   an export needs the file in one piece: one core codes it"
    for clip, told in (("long.y4m", True), ("in.y4m", False)):
        command = ["encode", clip, "-o", "out.mkv", "--preset", "12", "--crf", "50", "--export-qpfile", "qp.txt"]
        assert main([*command, "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["parts"] == 1
        assert (said in printed.err) == told


@pytest.mark.slow
def test_scenes_are_coded_in_parts_unasked_and_any_number_of_workers_writes_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_video("in.y4m", concatenate([scene("street", 36), scene("screen", 36)]))
    assert figures(capsys, "-o", "usual.ivf", *QUICK)["parts"] == 2
    assert figures(capsys, "-o", "one.ivf", *QUICK, "--workers", "1")["parts"] == 2
    assert Path("usual.ivf").read_bytes() == Path("one.ivf").read_bytes()


@pytest.mark.parametrize("kbps", ["20000", "0.01"])
def test_a_rate_that_no_qp_gives_takes_the_last_qp(tmp_path: Path, kbps: str) -> None:
    out = tmp_path / "encoded" / "out.mkv"
    out.parent.mkdir()
    clip = "generated:street?size=64x64&frames=8"
    assert main(["encode", clip, "-o", str(out), "--bitrate", kbps, "--preset", "12"]) == 0
    assert list(out.parent.iterdir()) == [out]
