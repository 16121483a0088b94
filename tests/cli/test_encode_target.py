"""`reel encode --target` and `--size`, with a small model and short clips."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.cli.encode_target import kbps_of_size
from reelrl.cli.main import main
from reelrl.content.clip import Clip
from reelrl.content.sources import open_clip
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.parts.folder import PartsFolder
from reelrl.encode.target.fit import CurveFitSettings
from reelrl.encode.target.goal import QualityTarget
from reelrl.encode.target.model_file import load_models, save_models
from reelrl.encode.target.train import fit_all
from reelrl.encode.target.whole import TargetJob, encode_to_target
from reelrl.errors import ConfigError
from tests.encode.fixtures import own_cache
from tests.encode.target.makers import lessons

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["own_cache"]

CLIP = "generated:cuts?size=128x96&frames=80"
QUICK = ["--preset", "12", "--workers", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_models(path, fit_all(lessons(6), CurveFitSettings()), {})
    return path


def encoded(model: Path, path: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    target = ["--target", "vmaf=90", "--model", str(model), "--json"]
    assert main(["encode", CLIP, "-o", str(path), *QUICK, *target, *options]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_every_scene_is_near_the_target_and_all_is_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = encoded(model, tmp_path / "out.mkv", "--verify", capsys=capsys)
    assert Clip.open(tmp_path / "out.mkv").frame_count == 80
    assert sum(part["frames"] for part in facts["parts"]) == 80
    assert facts["probes"] == sum(len(part["probes"]) for part in facts["parts"]) > 0
    assert facts["size_bytes"] == sum(part["size_bytes"] for part in facts["parts"])
    for part in facts["parts"]:
        # The model was fitted to invented curves: what brings it near is the probe.
        assert abs(part["got"] - 90) < abs(part["predicted"]["crf"] - part["crf"]) + 6
        assert part["crf"] * 4 == int(part["crf"] * 4)
    assert abs(facts["got"] - facts["expected"]) < 5
    assert not list(tmp_path.glob(".*parts"))


def test_scenes_that_missed_are_coded_again_and_then_are_nearer(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = encoded(model, tmp_path / "once.ivf", "--tries", "1", capsys=capsys)
    assert all(part["checks"] == [] for part in once["parts"])
    facts = encoded(model, tmp_path / "again.ivf", "--verify", capsys=capsys)
    redone = [part for part in facts["parts"] if part["checks"] and part["checks"][0]["crf"] != part["crf"]]
    assert redone  # the model was fitted to invented curves
    for part in redone:
        assert abs(part["got"] - 90) < abs(part["checks"][0]["figure"] - 90)
    assert not list(tmp_path.glob(".*parts"))


def test_a_cap_holds_scenes_below_a_bitrate(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = encoded(model, tmp_path / "free.ivf", capsys=capsys)
    capped = encoded(model, tmp_path / "capped.ivf", "--max-kbps", str(free["kbps"] / 3), capsys=capsys)
    assert capped["kbps"] < free["kbps"] / 1.5
    assert any(part["capped_by"] == "kbps" for part in capped["parts"])


@pytest.mark.long
def test_the_bytes_do_not_depend_on_the_number_of_workers(model: Path, tmp_path: Path) -> None:
    clip = open_clip(CLIP)
    settings = replace(RANDOM_ACCESS, preset=12, recon=False, psnr=False)
    streams = []
    for workers in (1, 2):
        job = TargetJob(clip, settings, QualityTarget("vmaf", 85), workers=workers)
        with PartsFolder(tmp_path / f"{workers}.ivf") as folder:
            made = encode_to_target(job, load_models(model)[0], folder)
            streams.append(list(made.packets()))
            assert len(made.parts) > 1
            again = encode_to_target(job, load_models(model)[0], folder)
            assert again.found == len(made.parts)
            folder.remove()
    assert streams[0] == streams[1]


def test_people_are_told_what_was_predicted_probed_and_got(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", "vmaf=99.5,p5", "--max-kbps", "5", "--frames", "20", "--model", str(model), "--verify"]
    assert main(["encode", CLIP, "-o", str(tmp_path / "a.ivf"), *QUICK, *options]) == 1
    assert "the model knows nothing of vmaf.p5; it knows bits, vmaf.mean" in capsys.readouterr().err
    options[1] = "vmaf=99"
    assert main(["encode", CLIP, "-o", str(tmp_path / "a.ivf"), *QUICK, *options]) == 0
    text = capsys.readouterr().out
    for words in ("predicted CRF", "expected", "got", "1 of 1 scenes do not meet the target: held below --max-kbps"):
        assert words in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "vmaf"], "write it like vmaf=93"),
        (["--bitrate", "100", "--verify"], "--verify goes with --target"),
        (["--target", "vmaf=90", "--policy", "rate-model"], "--policy goes with a bitrate"),
        (["--target", "vmaf=90", "--structure", "low_delay"], "random access only"),
        (["--target", "vmaf=90", "--max-kbps", "0"], "give kbit/s above zero"),
        (["--target", "vmaf=90", "--tries", "0"], "at least once"),
        (["--bitrate", "100", "--tries", "2"], "--tries goes with --target"),
        (["--target", "vmaf=90", "--model", "nowhere"], "nowhere"),
        (["--size", "many"], "write it like 700MB"),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_pass(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encode", CLIP, "-o", str(tmp_path / "out.ivf"), *options]) == 1
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_size_is_a_bitrate() -> None:
    assert kbps_of_size("700MB", 5600) == pytest.approx(1000)
    assert kbps_of_size("1.5 GiB", 60) == pytest.approx(1.5 * 2**30 * 8 / 60 / 1000)
    assert kbps_of_size("90kb", 1) == kbps_of_size("90000", 1) == 720
    for text in ("", "0", "-3MB", "1.2.3MB", "700 apples"):
        with pytest.raises(ConfigError, match="write it like 700MB"):
            kbps_of_size(text, 1)
