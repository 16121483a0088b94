"""`create_streaming_ae` and `update_params`, as scripts know them."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from reelrl import see
from reelrl.errors import ConfigError
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)


def picture(seed: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (210, 160, 3), np.uint8)


def steps_in(folder: Path) -> list[int]:
    events = EventAccumulator(str(folder), {"scalars": 0})
    events.Reload()
    return [event.step for event in events.Scalars("frame/loss")]


@pytest.mark.slow
def test_one_call_per_frame_returns_what_scripts_read(tmp_path: Path) -> None:
    model = see.create_streaming_ae(log_dir=tmp_path / "tb")
    for seed in range(3):
        results = model.update_params(picture(seed), debug=True)
    model.close()
    assert {"loss", "mse", "l1", "ssim", "psnr", "fps", "step_time", "change_mask", "reconstruction"} < results.keys()
    assert results["reconstruction"].shape == (1, 3, 224, 224)
    assert [tuple(each.shape) for each in results["embeddings"]] == [(1, 3, 27, 27), (1, 2, 25, 25), (1, 2, 23, 23)]
    assert results["psnr"] == pytest.approx(-10 * np.log10(results["mse"]), rel=1e-4)
    assert results["step_time"] * results["fps"] == pytest.approx(1)
    assert "reconstruction" not in model.update_params(picture(), debug=False)
    assert steps_in(tmp_path / "tb") == [1, 2, 3]


def test_a_model_that_is_dropped_has_written_everything(tmp_path: Path) -> None:
    model = see.create_streaming_ae(log_dir=tmp_path / "tb")
    model.update_params(picture())
    del model
    gc.collect()
    assert steps_in(tmp_path / "tb") == [1]


@pytest.mark.long
@pytest.mark.slow
def test_a_script_that_just_ends_has_written_everything(tmp_path: Path) -> None:
    script = (
        "import numpy as np, torch; torch.set_num_threads(1)\nfrom reelrl.see import create_streaming_ae\n"
        "model = create_streaming_ae()\n"
        "for _ in range(2): model.update_params(np.zeros((210, 160, 3), np.uint8))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=HANG_S)
    (folder,) = (tmp_path / "runs").glob("live_viewer_*")
    assert steps_in(folder) == [1, 2]


def test_no_tensorboard_leaves_no_files(tmp_path: Path) -> None:
    see.create_streaming_ae(use_tensorboard=False).update_params(picture())
    assert list(tmp_path.iterdir()) == []


def test_the_demo_model_in_the_working_folder_is_loaded_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = see.create_streaming_ae(use_tensorboard=False)
    trained.update_params(picture())
    torch.save(trained.state_dict(), tmp_path / "quick_demo_model.pth")
    with caplog.at_level(logging.WARNING):
        model = see.create_streaming_ae(use_tensorboard=False)
    assert "loaded quick_demo_model.pth: " in caplog.text
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), trained.parameters(), strict=True))


def test_it_is_obgd_unless_told_otherwise() -> None:
    assert see.create_streaming_ae(use_tensorboard=False, lr=1.0).settings.optimiser.name == "obgd"
    assert see.create_streaming_ae(use_tensorboard=False, optimizer="adam").settings.optimiser.name == "adam"
    with pytest.raises(ConfigError, match="input_channels is 4"):
        see.create_streaming_ae(input_channels=4)


def test_every_public_name_is_there() -> None:
    for name in see.__all__:
        assert getattr(see, name) is not None
