"""Exports, tried with the tools they are for where those are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.clip import Clip, concatenate
from reelrl.content.write.video import write_video
from reelrl.encode import open_source, run_controller
from reelrl.encode.codecs.settings import qindex_of
from reelrl.encode.file.export import (
    MIN_SCENE_FRAMES,
    Decisions,
    export,
    read_qp_file,
    scenes_of,
    scenes_text,
    zones_text,
)
from reelrl.encode.minigop.controllers.rules import FixedDeltas, RateModel
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.errors import ConfigError
from tests.encode.makers import deep_scene, quantisers, scene

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

CUTS = (36, 90)
FILM = concatenate([scene("street", 36), scene("talk", 54), scene("water", 30)], name="film").load()


@pytest.fixture(scope="module")
def film() -> Decisions:
    """Of a film with two cuts, which neither mini-GOPs nor key frames know of."""
    source = open_source(FILM, RANDOM_ACCESS, kbps=150)
    run_controller(source, RateModel())
    return Decisions.of(source)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that programs of another user can read and write."""
    with tempfile.TemporaryDirectory(prefix="reelrl-export-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def svt_av1_app(folder: Path, *arguments: str) -> None:
    """SVT-AV1's own program. Never as root: it would take real-time priority from everything else."""
    if shutil.which("SvtAv1EncApp") is None:
        pytest.skip("no SvtAv1EncApp: apt-get install svt-av1")
    user = 65534 if os.getuid() == 0 else None
    done = subprocess.run(
        ["SvtAv1EncApp", "--lp", "1", *arguments], cwd=folder, user=user, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_svt_av1_obeys_the_qp_file(film: Decisions, open_folder: Path) -> None:
    write_video(open_folder / "film.y4m", FILM)
    export(film, "qpfile", open_folder / "qp.txt")
    flags = ["--preset", "10", "--rc", "0", "--keyint", "-1", "--use-q-file", "1", "--qpfile", "qp.txt"]
    svt_av1_app(open_folder, "-i", "film.y4m", "-b", "out.ivf", *flags)
    wanted = read_qp_file(open_folder / "qp.txt")
    assert len(wanted) == FILM.frame_count
    assert len(set(wanted)) > 5
    assert quantisers(open_folder / "out.ivf") == [qindex_of(qp) for qp in wanted]


def test_svt_av1_obeys_the_qp_file_in_ten_bits(open_folder: Path) -> None:
    clip = deep_scene("street", 20)
    source = open_source(clip, RANDOM_ACCESS, kbps=150)
    run_controller(source, FixedDeltas([0.0, 2.5]))
    write_video(open_folder / "deep.y4m", clip)
    export(Decisions.of(source), "qpfile", open_folder / "qp.txt")
    flags = [
        "--input-depth",
        "10",
        "--preset",
        "10",
        "--rc",
        "0",
        "--keyint",
        "-1",
        "--use-q-file",
        "1",
        "--qpfile",
        "qp.txt",
    ]
    svt_av1_app(open_folder, "-i", "deep.y4m", "-b", "out.ivf", *flags)
    coded = Clip.open(open_folder / "out.ivf")
    assert (coded.depth, coded.frame_count) == (10, 20)
    assert quantisers(open_folder / "out.ivf") == [qindex_of(qp) for qp in read_qp_file(open_folder / "qp.txt")]


def test_every_zone_is_one_that_svt_av1_codes(film: Decisions, open_folder: Path) -> None:
    for line in zones_text(film).splitlines():
        first, end, encoder, *flags = line.split()
        assert encoder == "svt-av1"
        part = FILM.window(int(first), int(end) - int(first))
        write_video(open_folder / "part.y4m", part)
        svt_av1_app(open_folder, "-i", "part.y4m", "-b", "out.ivf", *flags)  # as Av1an calls it
        assert Clip.open(open_folder / "out.ivf").frame_count == part.frame_count


def test_zones_and_scenes_begin_at_cuts_only(film: Decisions) -> None:
    assert tuple(film.cuts) == CUTS
    assert [(scene.first, scene.end) for scene in scenes_of(film)] == [(0, 36), (36, 90), (90, 120)]
    borders = {int(line.split()[0]) for line in zones_text(film).splitlines()}
    assert borders <= {0, *CUTS}


def test_the_scene_file_is_what_av1an_reads(film: Decisions) -> None:
    read = json.loads(scenes_text(film))
    assert set(read) == {"frames", "scenes", "split_scenes"}
    assert read["frames"] == 120
    assert read["scenes"] == read["split_scenes"]
    assert read["scenes"][0]["start_frame"] == 0
    for scene_, planned in zip(read["scenes"], scenes_of(film), strict=True):
        assert set(scene_) == {"start_frame", "end_frame", "zone_overrides"}
        options = scene_["zone_overrides"]
        assert (options["encoder"], options["passes"]) == ("svt_av1", 1)
        words = options["video_params"]
        assert dict(zip(words[::2], words[1::2], strict=True))["--crf"] == str(planned.crf)


@given(
    frames=st.integers(1, 400),
    cuts=st.lists(st.integers(1, 399), max_size=30, unique=True).map(sorted),
    crf=st.floats(-20, 90),
)
def test_scenes_cover_the_video_and_none_is_short(frames: int, cuts: list[int], crf: float) -> None:
    cuts = [cut for cut in cuts if cut < frames]
    scenes = scenes_of(Decisions([40] * frames, [crf] * frames, cuts, 8))
    assert [scenes[0].first, scenes[-1].end] == [0, frames]
    assert all(before.end == after.first for before, after in pairwise(scenes))
    assert {scene.first for scene in scenes[1:]} <= set(cuts)
    assert all(scene.end - scene.first >= min(frames, MIN_SCENE_FRAMES) for scene in scenes)
    assert all(1 <= scene.crf <= 63 for scene in scenes)


def test_scenes_differ_as_the_decisions_do_and_equal_ones_share_a_zone() -> None:
    crfs = [30.0] * 50 + [36.4] * 50 + [35.6] * 50
    decisions = Decisions([40] * 150, crfs, [50, 100], 6)
    assert [scene.crf for scene in scenes_of(decisions)] == [30, 36, 36]
    assert zones_text(decisions) == "0 50 svt-av1 --crf 30 --preset 6\n50 150 svt-av1 --crf 36 --preset 6\n"


def test_a_pass_that_is_not_complete_is_not_exported() -> None:
    source = open_source(scene("street", 20), RANDOM_ACCESS, kbps=150)
    try:
        with pytest.raises(ConfigError, match="0 of 20 frames are coded; export a pass that is complete"):
            Decisions.of(source)
    finally:
        source.close()
