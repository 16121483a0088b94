"""A learner that watches while things around it break: it says so, and the last good checkpoint stays."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl.errors import CheckpointError, ConfigError, ContentError, RunError
from reelrl.runs.folder import Run
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.train import AutoEncoderTrainer, AutoEncoderTraining

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

SMALL = AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2)))
SETTINGS = AutoEncoderTraining(source="ale:Breakout", frames=8, log_every=2, save_every=4, model=SMALL)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def new_run(root: Path) -> Run:
    return Run.create(root, SETTINGS, stage="autoencoder", name="test", seed=0)


def train(run: Run, on_frame: Callable[[int], None] = lambda _: None) -> None:
    trainer = AutoEncoderTrainer(SETTINGS, 0, run)
    trainer.resume()
    assert trainer.train(on_frame) == "done"


def weights(run: Run) -> dict[str, bytes]:
    saved = run.checkpoints.latest()
    assert saved is not None
    assert saved.step == SETTINGS.frames
    return {name: array.tobytes() for name, array in saved.tensors.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> dict[str, bytes]:
    with new_run(tmp_path_factory.mktemp("runs")) as run:
        train(run)
        return weights(run)


def feeds_of_this_process() -> list[int]:
    children = [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    return [int(pid) for pid in children if b"feeds.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_source_that_is_killed_costs_nothing_that_was_learned(run_root: Path, undisturbed: dict[str, bytes]) -> None:
    def kill(frame: int) -> None:
        if frame == 2:
            (feed,) = feeds_of_this_process()
            os.kill(feed, signal.SIGKILL)

    # The pipe holds more pictures than this training needs: watch one that is larger than the pipe.
    settings = dataclasses.replace(SETTINGS, source="generated:street?frames=20&size=1280x720")
    with Run.create(run_root, settings, stage="autoencoder", name="test", seed=0) as run:
        with pytest.raises(ContentError, match=r"died \(killed by SIGKILL\) after \d+ pictures; resume"):
            AutoEncoderTrainer(settings, 0, run).train(kill)
        saved = run.checkpoints.latest()
        assert saved is not None
        assert saved.step == 2
        trainer = AutoEncoderTrainer(settings, 0, run)
        assert trainer.resume()
        assert trainer.train(lambda _: None) == "done"
    assert feeds_of_this_process() == []


@pytest.mark.parametrize("small_disk", [16], indirect=True, ids=["16 megabytes"])
@pytest.mark.parametrize("room", [0, 1 << 20], ids=["none", "some"])
def test_a_full_disk_is_told_and_the_last_checkpoint_stays(
    small_disk: Path, room: int, undisturbed: dict[str, bytes]
) -> None:
    filler = small_disk / "filler"

    def fill(frame: int) -> None:
        if frame == 5:
            left = os.statvfs(small_disk)
            filler.write_bytes(bytes(left.f_bavail * left.f_frsize - room))

    with new_run(small_disk / "runs") as run:
        with pytest.raises(RunError, match=r"the disk is full \(\d+ bytes left\); free some space"):
            train(run, fill)
        saved = run.checkpoints.latest()
        assert saved is not None
        assert saved.step == 4
    filler.unlink()
    with Run.open(run.folder) as run:
        train(run)
        assert weights(run) == undisturbed


@pytest.mark.parametrize(
    "name", ["tensors.safetensors", *(pytest.param(n, marks=pytest.mark.long) for n in ("state.json", "manifest.json"))]
)
def test_a_checkpoint_cut_short_gives_way_to_the_one_before(
    run_root: Path, name: str, undisturbed: dict[str, bytes]
) -> None:
    with new_run(run_root) as run:
        train(run)
        older, newest = run.checkpoints.all()
        os.truncate(newest / name, (newest / name).stat().st_size // 2)
    with Run.open(run.folder) as run:
        with pytest.warns(RuntimeWarning, match=f"using {older.name}, because"):
            train(run)
        assert weights(run) == undisturbed
        for folder in run.checkpoints.all():
            os.truncate(folder / name, 10)
        with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole"):
            train(run)


def test_a_checkpoint_of_another_model_is_refused(run_root: Path) -> None:
    with new_run(run_root) as run:
        train(run)
        wider = dataclasses.replace(SETTINGS, model=dataclasses.replace(SMALL, latent_channels=4))
        with pytest.raises(CheckpointError, match="does not fit this"):
            AutoEncoderTrainer(wider, 0, run).resume()


BAD_FRAMES: dict[str, Any] = {
    "no colours": torch.zeros(224, 224, dtype=torch.uint8),
    "four colours": torch.zeros(4, 224, 224, dtype=torch.uint8),
    "two frames": torch.zeros(2, 3, 224, 224),
    "no pixels": torch.zeros(3, 0, 224),
    "whole numbers": torch.zeros(3, 224, 224, dtype=torch.int64),
    "not a number": torch.full((3, 224, 224), torch.nan),
    "infinite": torch.full((3, 224, 224), torch.inf),
    "not in [0, 1]": torch.full((3, 224, 224), 255.0),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_frame_that_is_none_is_refused_and_nothing_is_learned_from_it(name: str) -> None:
    model = StreamingAutoEncoder(SMALL)
    model.learn(torch.full((3, 224, 224), 0.5))
    before = model.training_state()
    with pytest.raises(ConfigError, match="frame"):
        model.learn(BAD_FRAMES[name])
    after = model.training_state()
    assert before.keys() == after.keys()
    assert all(torch.equal(torch.as_tensor(before[key]), torch.as_tensor(after[key])) for key in before)
