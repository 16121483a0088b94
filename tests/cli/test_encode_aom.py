"""`reel encode --backend aom`: the bitrate is met frame by frame; what it cannot do is one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reelrl.cli.main import main
from reelrl.content.clip import Clip
from tests.encode.fixtures import own_cache  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

CLIP = "generated:cuts?size=64x64&frames=40"
AOM = ["encode", CLIP, "--backend", "aom"]


def test_the_file_plays_and_its_bitrate_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out.mkv")
    assert main([*AOM, "-o", out, "--bitrate", "60", "--compare", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Clip.open(out).frame_count == 40
    assert abs(found["rate_error"]) < 0.05
    assert found["compare"]["mode"] == "vbr"
    assert abs(found["compare"]["rate_error"]) > abs(found["rate_error"])
    # The same command gives the same bytes, and the public way is another stream.
    first = (tmp_path / "out.mkv").read_bytes()
    assert main([*AOM, "-o", str(tmp_path / "again.mkv"), "--bitrate", "60"]) == 0
    assert (tmp_path / "again.mkv").read_bytes() == first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--crf", "40"], "--crf with --backend aom"),
        (["--bitrate", "60", "--workers", "2"], "--workers with --backend aom"),
        (["--bitrate", "60", "--structure", "low_delay"], "leave it out"),
        (["--bitrate", "60", "--depth", "10"], "code 8 bits"),
        (["--bitrate", "60", "--policy", "crf-replay"], "frame controller"),
    ],
)
def test_what_it_cannot_do_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main([*AOM, "-o", str(tmp_path / "out.mkv"), *words]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
