"""`reel-encoder` as a program: what it reads, writes and refuses when nobody steers it."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

from reelrl.cli.reel_encoder import main
from reelrl.content.clip import Clip
from reelrl.content.write.video import IvfReader, write_video
from reelrl.encode import EncoderSettings, encode_clip
from tests.encode.fixtures import own_cache  # noqa: F401
from tests.encode.handshake.handshakes import ENCODER
from tests.encode.makers import scene
from tests.waiting import HANG_S

CLIP = scene("street", 12, (64, 64))


@pytest.fixture
def clip_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RL_DIR", raising=False)
    write_video("in.y4m", CLIP)
    return tmp_path / "in.y4m"


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def test_without_the_folder_it_simply_encodes(clip_path: Path) -> None:
    assert main(["--input", "in.y4m", "--o", "out.ivf", "--csv", "out.csv", "--crf", "45", "--preset", "12"]) == 0
    settings = EncoderSettings(
        qp=45, preset=12, rate_control="crf", structure="random_access", hierarchical_levels=4, keyint=161, recon=False
    )
    alone = encode_clip(CLIP, settings)
    assert list(IvfReader("out.ivf")) == [packet.data for packet in alone.packets]
    rows = rows_of("out.csv")
    assert [int(row["bits"]) for row in rows] == [8 * packet.size for packet in alone.packets]
    assert [float(row["psnr_y"]) for row in rows] == pytest.approx(
        [packet.psnr[0] for packet in alone.packets], abs=1e-4
    )
    assert rows[0]["type"] == "key"
    assert not Path("rl_io").exists()


def test_the_command_of_the_guide_works_on_raw_video(clip_path: Path) -> None:
    write_video("in.yuv", CLIP)
    size = ["--input", "in.yuv", "--input-res", "64x64", "--fps", "24", "--frames", "8", "--preset", "12"]
    rate = ["--bitrate", "90", "--rc-mode", "1"]
    assert main([*size, *rate, "--pass", "1", "--stat-out", "p1.log"]) == 0
    more = ["--o", "out.ivf", "--csv", "out.csv", "--pass", "2", "--stat-in", "p1.log", "--stat-out", "p2.log"]
    assert main([*size, *rate, *more]) == 0
    stream = IvfReader("out.ivf")
    assert (stream.width, stream.height, int(stream.fps), len(list(stream))) == (64, 64, 24, 8)
    log = json.loads(Path("p2.log").read_text())
    assert [picture["bits"] for picture in log["pictures"]] == [int(row["bits"]) for row in rows_of("out.csv")]
    assert Clip.open("out.ivf").frame_count == 8


def test_frames_0_means_all_and_underscores_are_dashes(clip_path: Path) -> None:
    assert main(["--input=in.y4m", "--o=out.mkv", "--frames=0", "--rc_mode=0", "--qp=50", "--preset=12"]) == 0
    assert Clip.open("out.mkv").frame_count == CLIP.frame_count


def test_constant_bitrate_is_low_delay(clip_path: Path) -> None:
    assert main(["--input", "in.y4m", "--csv", "out.csv", "--rc-mode", "2", "--bitrate", "80", "--preset", "12"]) == 0
    assert len(rows_of("out.csv")) == CLIP.frame_count


def test_a_log_of_another_clip_is_refused(clip_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_video("other.y4m", scene("street", 12, (64, 64), seed=1))
    rate = ["--bitrate", "90", "--preset", "12"]
    assert main(["--input", "other.y4m", *rate, "--pass", "1", "--stat-out", "p1.log"]) == 0
    assert main(["--input", "in.y4m", *rate, "--pass", "2", "--stat-in", "p1.log", "--o", "out.ivf"]) == 1
    assert "p1.log is of another clip than" in capsys.readouterr().err
    assert not Path("out.ivf").exists()


def test_a_first_pass_is_the_probe_of_a_steered_second(clip_path: Path, own_cache: Path) -> None:  # noqa: F811
    flags = ["--input", "in.y4m", "--bitrate", "75", "--preset", "12"]
    assert main([*flags, "--pass", "1", "--stat-out", "p1.log"]) == 0
    Path("rl_io").mkdir()
    probes = sorted((own_cache / "probes").iterdir())
    assert main([*flags, "--pass", "2", "--stat-in", "p1.log", "--o", "out.ivf", "--rl-deadline", "0"]) == 0
    assert sorted((own_cache / "probes").iterdir()) == probes


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--o", "a.ivf", "--rc-mode", "1"], "--rc-mode 1 with --bitrate None; give --bitrate KBPS"),
        (["--o", "a.ivf", "--rc-mode", "0", "--bitrate", "90"], "leave --bitrate out, or choose 1 or 2"),
        (["--o", "a.ivf", "--frames", "-1"], "--frames -1; give how many to code, 0 for all"),
        (["--pass", "1"], "--pass 1 without --stat-out"),
        ([], "nothing to write: give --o, --csv or --stat-out"),
        (["--o", "a.ivf", "--crf", "99"], "qp = 99; use 1 to 63"),
        (["--o", "a.ivf", "--input-res", "32x32"], "in.y4m is 64x64, not 32x32"),
        (["--o", "a.ivf", "--stat-in", "none.log"], "cannot read none.log: no such file or folder"),
        (["--o", "a.avi"], "unknown kind of file"),
    ],
)
def test_contradictions_are_explained(
    clip_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], reason: str
) -> None:
    assert main(["--input", "in.y4m", "--preset", "12", *flags]) == 1
    assert reason in capsys.readouterr().err


def test_a_log_that_is_none_is_refused(clip_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p1.log").write_text("[1, 2]")
    assert main(["--input", "in.y4m", "--o", "a.ivf", "--stat-in", "p1.log"]) == 1
    assert "p1.log is no log of a pass" in capsys.readouterr().err


def test_help_and_wrong_usage_leave_their_statuses() -> None:
    assert main(["--help"]) == 0
    assert main(["--no-such-flag"]) == 2


@pytest.mark.slow
def test_it_is_a_program(clip_path: Path) -> None:
    command = [*ENCODER, "--input", "in.y4m", "--o", "out.ivf", "--qp", "50", "--preset", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("coded  out.ivf")
    assert done.stdout.rstrip().endswith("cqp alone, one pass")
