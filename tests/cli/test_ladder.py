"""`reel ladder`: real segments, real sizes, and a ladder that streams."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import av
import m3u8
import numpy as np
import pytest
from mpegdash.parser import MPEGDASHParser

from reelrl.cli.main import main
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.packaging import HLS, MANIFEST, segment_name
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


TARGET = ["--target", "vmaf=40..90", "--rungs", "3"]


@pytest.mark.slow
def test_rungs_of_different_sizes_are_one_ladder_of_aligned_segments(tmp_path: Path) -> None:
    """Chosen by the model, coded, packaged; both manifests are read by parsers that are not ours."""
    clip = "generated:street?size=512x288&frames=24"  # two thirds of it are not even
    words = ["--segment", "0.4", "--preset", "12", "--json"]
    assert main(["ladder", clip, "-o", str(tmp_path), *TARGET, *words]) == 0
    ladder = read_ladder(tmp_path)
    assert len(ladder.bitrates_kbps) == 3
    assert (np.diff(ladder.quality["psnr"].mean(axis=0)) > 0).all()
    manifest = MPEGDASHParser.parse(str(tmp_path / MANIFEST))
    representations = manifest.periods[0].adaptation_sets[0].representations
    sizes = [(each.width, each.height) for each in representations]
    assert len(set(sizes)) > 1
    assert sizes == sorted(sizes)
    playlists = m3u8.load(str(tmp_path / HLS)).playlists
    assert sorted(each.stream_info.resolution for each in playlists) == sizes
    for rung, size in enumerate(sizes):
        # Each segment decodes from its own first frame, at its rung's size.
        for segment in range(2):
            data = (tmp_path / f"init-stream{rung}.mp4").read_bytes() + (
                tmp_path / segment_name(rung, segment)
            ).read_bytes()
            with av.open(io.BytesIO(data), "r") as source:
                frames = list(source.decode(video=0))
            assert [(frame.width, frame.height) for frame in frames] == [size] * 12


@pytest.mark.slow
def test_without_a_folder_the_rungs_are_only_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = "generated:street?size=192x144&frames=12"
    assert main(["ladder", clip, "--target", "vmaf=10..60", "--rungs", "3"]) == 0
    text = capsys.readouterr().out
    assert text.count("choose") == 2  # the highest CRF is good enough for two of the qualities
    assert "3 rungs were asked for; sizes and CRFs give 2 that differ" in text
    assert f"reel ladder {clip} --rungs 3 --target vmaf=10..60 -o site/" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no -o FOLDER"),
        (["--rungs", "5", "-o", "site"], "--rungs goes with --target"),
        (["--target", "vmaf=90"], "write it like vmaf=60..95"),
        (["--target", "psnr=30..40"], "VMAF alone"),
        (["--target", "vmaf=90..60"], "a range that rises"),
        (["--target", "vmaf=60..200"], "use 1 to 99.5"),
        (["--target", "vmaf=60..95", "--backend", "aom"], "knows svtav1 only"),
    ],
)
def test_a_ladder_that_cannot_be_is_refused(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ladder", CLIP, *options]) == 1
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
