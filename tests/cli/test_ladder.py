"""`reel ladder`: real segments, real sizes, and a ladder that streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.packaging import segment_name
from reelrl.stream.simulator.env import ABREnv
from tests.stream.helpers import links

if TYPE_CHECKING:
    from pathlib import Path

CLIP = "generated:street?size=128x96"


def test_a_clip_becomes_a_ladder_that_streams(tmp_path: Path) -> None:
    folder = tmp_path / "ladder"
    command = ["ladder", CLIP, "-o", str(folder), "--frames", "24", "--segment", "0.4", "--qps", "55", "40", "25"]
    assert main(command) == 0
    ladder = read_ladder(folder)
    video = ladder.video()
    assert (video.rungs, video.chunks) == (3, 2)
    assert video.chunk_s == pytest.approx(0.4)
    for segment in range(2):
        for rung in range(3):
            assert (folder / segment_name(rung, segment)).stat().st_size == video.sizes_bytes[segment, rung]
    assert (np.diff(ladder.quality["psnr"].mean(axis=0)) > 0).all()
    assert json.loads((folder / "ladder.json").read_text())["ssim"]
    env = ABREnv(links(4)[0], folder, qoe="psnr")
    env.reset(seed=0)
    assert env.step(2)[4]["reward_quality"] > 0


def test_rungs_by_rate_come_out_near_it(tmp_path: Path) -> None:
    words = ["--frames", "48", "--segment", "0.8", "--kbps", "60", "240", "--preset", "12"]
    assert main(["ladder", CLIP, "-o", str(tmp_path), *words]) == 0
    assert read_ladder(tmp_path).bitrates_kbps == pytest.approx([60, 240], rel=0.5)


def test_a_clip_shorter_than_a_segment_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ladder", CLIP, "-o", str(tmp_path), "--frames", "10", "--segment", "2"]) == 1
    assert "less than one segment" in capsys.readouterr().err
