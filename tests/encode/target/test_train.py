"""Training: scenes from videos, resumed where it stopped, a file that is read without running code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.encode.target import train as training
from reelrl.encode.target.fit import CurveFitSettings
from reelrl.encode.target.lessons import BITS, lesson_of
from reelrl.encode.target.model import FileBelief, figure_names
from reelrl.encode.target.model_file import FILE, find_models, load_models, save_models
from reelrl.encode.target.scenes import SceneChoice, scenes_of, source_of, videos_in
from reelrl.encode.target.train import LESSONS, fit_all, read_lessons
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs.folder import RunFolder
from tests.encode.target.makers import lessons

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.target.lessons import Lesson

pytestmark = pytest.mark.slow

VIDEOS = [f"generated:{style}?size=128x96&frames=12&seed=1" for style in ("street", "talk", "noise")]
QUICK = ["--set", "scenes.frames=12", "--set", "thorough=true"]


def test_names_without_size_and_length_say_whose_pictures_they_are() -> None:
    assert source_of("bunny-1080p-30sec") == source_of("bunny-480p-30sec") == "bunny"
    assert source_of("street_1280x720_a") == source_of("street_1920x1080_a") == "street_a"
    assert source_of("1080p") == "1080p"


def test_scenes_have_no_cut_inside_and_are_spread_over_the_video() -> None:
    found = scenes_of("generated:cuts?size=128x96&frames=120", SceneChoice(scenes=4, frames=10))
    starts = [int(clip.name.partition("[")[2].partition(":")[0]) for clip in found]
    assert len(found) == 4
    assert starts == sorted(starts)
    assert starts[-1] > 60
    thumbs = [np.array([frame.y[::8, ::8].astype(int) for frame in clip]) for clip in found]
    assert all(np.abs(np.diff(each, axis=0)).mean(axis=(1, 2)).max() < 60 for each in thumbs)


def test_a_folder_without_videos_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"holds no video"):
        videos_in([str(tmp_path)])
    assert len(videos_in([])) > 10


@pytest.mark.long
def test_a_training_that_was_stopped_goes_on_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "target", *VIDEOS, *QUICK, "--output-dir", str(tmp_path)]
    assert main(arguments) == 0
    whole = RunFolder(tmp_path / "0001")
    measured = {"count": 0}

    def interrupted(scene: object, plan: object) -> Lesson:
        measured["count"] += 1
        if measured["count"] == 3:
            raise KeyboardInterrupt
        return lesson_of(scene, plan)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "lesson_of", interrupted)
    assert main(arguments) == 130
    assert len(read_lessons(RunFolder(tmp_path / "0002"))) == 2
    assert main(["train", "target", "--resume", str(tmp_path / "0002")]) == 0
    assert measured["count"] == 4  # two before, one broken off, one after
    assert "2 measured" in capsys.readouterr().out
    resumed = RunFolder(tmp_path / "0002")
    # All but the CPU times of features, which are measured anew.
    assert resumed.artifact(FILE).read_bytes() == whole.artifact(FILE).read_bytes()
    assert main(["evaluate", str(tmp_path / "0001"), "--measured", "--out", str(tmp_path / "judged"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {row["searcher"] for row in record["searchers"]} <= {"model", "interpolated", "four-probes"}


def test_lessons_of_one_source_are_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "target", VIDEOS[0], "--output-dir", str(tmp_path)]) == 1
    assert "give more videos" in capsys.readouterr().err


def test_a_model_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    models = fit_all(lessons(6), CurveFitSettings())
    path = tmp_path / FILE
    save_models(path, models, {"scenes": 18})
    loaded, facts = load_models(path)
    assert facts == {"scenes": 18}
    assert loaded.keys() == models.keys() == {"vmaf.mean", BITS}
    assert np.allclose(loaded[BITS].covariance, models[BITS].covariance, rtol=1e-6)
    assert loaded["vmaf.mean"].shared == pytest.approx(models["vmaf.mean"].shared)


def test_a_damaged_model_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    models = fit_all(lessons(6), CurveFitSettings())
    path = tmp_path / FILE
    broken = replace(models[BITS], covariance=models[BITS].covariance * np.nan)
    save_models(path, models | {BITS: broken}, {})
    with pytest.raises(CheckpointError, match=r"not finite.*reel train target"):
        load_models(path)
    save_models(path, {BITS: replace(models[BITS], weights=models[BITS].weights[:3])}, {})
    with pytest.raises(CheckpointError, match="bits/weights is"):
        load_models(path)
    path.write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="holds no model of quality targets"):
        find_models(str(path))


def test_what_a_run_measured_is_read_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from reelrl.runs.folder import Run

    with Run.create(tmp_path, training.TargetTraining(), stage="target", name="t", seed=0, tensorboard=False) as run:
        assert read_lessons(run) == []
        run.new_artifact(LESSONS).write_text("[{}]")
    assert main(["evaluate", "target", str(run.folder)]) == 1
    assert "holds no lessons" in capsys.readouterr().err


def test_the_model_that_ships_knows_every_metric_and_pooling() -> None:
    models, facts = load_models()
    assert models.keys() == set(figure_names())
    assert facts["scenes"] >= 60
    for preset in (4, 8):
        expected, doubt = FileBelief(models["vmaf.mean"]).scene(models["vmaf.mean"].centre).curve(preset)
        # An average scene: near 100 at low CRF, falling, unsure.
        assert expected[0] > 95 > 85 > expected[-1]
        assert (doubt > 0).all()
