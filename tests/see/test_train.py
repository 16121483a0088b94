"""A training in a run folder: continued to the same bits, measured beside honest guesses, stopped in good order."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from reelrl.errors import CheckpointError, ConfigError, InvalidStateError
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.tensorboard import Board
from reelrl.see.execution import Replay
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.baselines import FIGURES, StreamScores, psnr, summary
from reelrl.see.monitor.performance import PerformanceMonitor, TensorBoardLogger
from reelrl.see.result import FIGURES as FIGURE_TENSORS
from reelrl.see.result import LearnResult
from reelrl.see.settings import AutoEncoderSettings, OptimiserSettings
from reelrl.see.train import COLUMNS, AutoEncoderTrainer, AutoEncoderTraining, Window
from reelrl.see.weights import load_weights, save_weights
from reelrl.settings import config
from tests.runs.outcome import outcome

if TYPE_CHECKING:
    from pathlib import Path

SMALL = AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2)))
SETTINGS = AutoEncoderTraining(
    source="ale:Breakout", frames=8, log_every=3, picture_every=4, save_every=4, keep_checkpoints=2, model=SMALL
)
OPTIMISERS = ["obgd", "adam", "intentional"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def train(root: Path, settings: AutoEncoderTraining, seed: int = 0) -> Path:
    with Run.create(root, settings, stage="autoencoder", name="test", seed=seed) as run:
        assert AutoEncoderTrainer(settings, seed, run).train(lambda _: None) == "done"
        return run.folder


def go_on(folder: Path, settings: AutoEncoderTraining, seed: int = 0) -> None:
    with Run.open(folder) as run:
        trainer = AutoEncoderTrainer(settings, seed, run)
        assert trainer.resume()
        assert trainer.train(lambda _: None) == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [OPTIMISERS[0], *(pytest.param(name, marks=pytest.mark.long) for name in OPTIMISERS[1:])]
)
def test_half_and_resume_and_half_is_the_whole(run_root: Path, name: Any) -> None:
    whole = dataclasses.replace(SETTINGS, model=dataclasses.replace(SMALL, optimiser=OptimiserSettings(name=name)))
    half = dataclasses.replace(whole, frames=5)  # neither a window's end nor a checkpoint
    once = train(run_root, whole)
    twice = train(run_root, half)
    go_on(twice, whole)
    assert outcome(RunFolder(once)) == outcome(RunFolder(twice))
    assert [line["step"] for line in RunFolder(once).metrics()] == [3, 6]
    if name == OPTIMISERS[0]:
        other = train(run_root, whole, seed=1)
        assert outcome(RunFolder(other)) != outcome(RunFolder(once))


@pytest.mark.slow
def test_a_run_of_a_source_that_ends_ends_well(run_root: Path) -> None:
    settings = dataclasses.replace(SETTINGS, source="generated:street?frames=5&size=64x48")
    with Run.create(run_root, settings, stage="autoencoder", name="test", seed=0) as run:
        trainer = AutoEncoderTrainer(settings, 0, run)
        assert trainer.train(lambda _: None) == "ended"
        assert trainer.frames_done == 5
        saved = run.checkpoints.latest()
    assert saved is not None
    assert saved.step == 5
    with Run.open(run.folder) as run:
        trainer = AutoEncoderTrainer(settings, 0, run)
        assert trainer.resume()
        assert trainer.train(lambda _: None) == "ended"
        assert trainer.frames_done == 5


@pytest.mark.slow
def test_only_so_many_checkpoints_stay(run_root: Path) -> None:
    folder = train(run_root, dataclasses.replace(SETTINGS, save_every=2))
    assert [path.name for path in RunFolder(folder).checkpoints.all()] == ["00003-step-6", "00004-step-8"]


@pytest.mark.slow
def test_tensorboard_has_every_frame_and_pictures_and_histograms_now_and_then(run_root: Path) -> None:
    folder = train(run_root, SETTINGS)
    events = EventAccumulator(str(folder / "tb"), {"scalars": 0, "images": 0, "histograms": 0})
    events.Reload()
    for tag in ("frame/loss", "frame/ssim", "frame/model_mse", "frame/changed_share", "time/fps", "time/update_ms"):
        assert [event.step for event in events.Scalars(tag)] == list(range(1, 9)), tag
    assert [event.step for event in events.Scalars("psnr")] == [3, 6]
    assert [event.step for event in events.Images("panels")] == [1, 4, 8]
    tags = events.Tags()["histograms"]
    assert {"embeddings/0", "embeddings/2"} < set(tags)
    assert sum(tag.startswith("parameters/") for tag in tags) == len(list(StreamingAutoEncoder(SMALL).parameters()))


def test_the_baselines_are_what_a_plain_loop_computes() -> None:
    chance = np.random.default_rng(0)
    frames = chance.random((6, 1, 3, 8, 8)).astype(np.float32)
    guesses = chance.random((6, 1, 3, 8, 8)).astype(np.float32)
    baselines = StreamScores(8)
    background = frames[0]
    for index, (frame, guess) in enumerate(zip(frames, guesses, strict=True)):
        figures = dict(zip(FIGURES, baselines(torch.tensor(frame), torch.tensor(guess)).tolist(), strict=True))
        mean = frames[:index].mean(axis=0) if index else np.zeros_like(frame)
        previous = frames[index - 1] if index else np.zeros_like(frame)
        in_front = np.abs(frame - background).max(axis=1) > 0.1
        for name, picture in (("model", guess), ("mean", mean), ("previous", previous)):
            error = np.square(frame - picture).mean(axis=1)
            assert figures[f"{name}_mse"] == pytest.approx(error.mean(), rel=1e-4)
            assert figures[f"{name}_foreground"] == pytest.approx((error * in_front).mean(), rel=1e-4)
        assert figures["foreground_share"] == pytest.approx(in_front.mean())
        background = np.clip(background + np.sign(frame - background) / 255, 0, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replayed_work_is_the_work() -> None:
    def tensors() -> LearnResult:
        scalars = {name: torch.rand((), device="cuda") for name in FIGURE_TENSORS}
        pictures = {name: torch.rand(1, 3, 16, 16, device="cuda") for name in ("frame", "reconstruction")}
        mask = torch.rand(1, 1, 16, 16, device="cuda")
        return LearnResult(**scalars, **pictures, embeddings=(mask, mask, mask), change_mask=mask)

    static = tensors()
    plain, recorded = StreamScores(16).cuda(), StreamScores(16).cuda()
    replay = Replay(lambda result: recorded(result.frame, result.reconstruction))
    for _ in range(12):
        for name, value in vars(tensors()).items():
            if isinstance(value, torch.Tensor):
                getattr(static, name).copy_(value)
        assert torch.equal(replay(static).clone(), plain(static.frame, static.reconstruction))
    moved = tensors()
    assert torch.equal(replay(moved).clone(), plain(moved.frame, moved.reconstruction))


def test_foreground_psnr_is_left_out_where_there_is_no_foreground() -> None:
    still = dict.fromkeys(FIGURES, 0.0) | {"model_mse": 0.001}
    assert summary(still)["psnr"] == pytest.approx(30)
    assert not any("foreground_psnr" in name for name in summary(still))
    moving = still | {"model_foreground": 0.001, "foreground_share": 0.1}
    assert summary(moving)["foreground_psnr"] == pytest.approx(20)
    assert psnr(0.0) == 100


def test_a_loss_that_is_not_finite_ends_the_training_before_anything_is_saved(run_root: Path) -> None:
    with Run.create(run_root, SETTINGS, stage="autoencoder", name="test", seed=0) as run:
        window = Window(run, 100)
        logger = TensorBoardLogger(run.board, COLUMNS, on_rows=window.add)
        logger.add(7, torch.full((len(COLUMNS),), math.nan))
        with pytest.raises(InvalidStateError, match="the loss is nan at frame 7"):
            logger.drain()
        logger.close()


@pytest.mark.slow
def test_a_learner_that_went_astray_leaves_no_checkpoint(run_root: Path) -> None:
    model = dataclasses.replace(SMALL, optimiser=OptimiserSettings(name="sgd", lr=1e38, clip_norm=0.0))
    settings = dataclasses.replace(SETTINGS, model=model, frames=40)
    with Run.create(run_root, settings, stage="autoencoder", name="test", seed=0) as run:
        with pytest.raises(InvalidStateError, match="went astray"):
            AutoEncoderTrainer(settings, 0, run).train(lambda _: None)
        assert run.checkpoints.all() == []


def test_a_logger_writes_what_it_was_given_before_it_ends(tmp_path: Path) -> None:
    board = Board(tmp_path)
    logger = TensorBoardLogger(board, ("one", "two"))
    for step in range(150):
        logger.add(step, torch.tensor([float(step), 1.0]), {"time/x": 0.5})
    logger.close()
    board.close()
    events = EventAccumulator(str(tmp_path), {"scalars": 0})
    events.Reload()
    assert [event.value for event in events.Scalars("frame/one")] == list(range(150))
    assert len(events.Scalars("time/x")) == 150


def test_parts_of_a_step_add_up() -> None:
    performance = PerformanceMonitor()
    for _ in range(3):
        with performance.part("a"):
            sum(range(1000))
        with performance.part("b"):
            sum(range(3000))
    assert sum(performance.shares().values()) == pytest.approx(1)
    assert performance.step_s == pytest.approx(sum(performance.last_s.values()))
    assert performance.totals_s["a"] > performance.last_s["a"] > 0


def test_weights_come_back_and_foreign_ones_are_taken_as_far_as_they_fit(tmp_path: Path) -> None:
    model, other = StreamingAutoEncoder(SMALL), StreamingAutoEncoder(dataclasses.replace(SMALL, seed=9))
    save_weights(other, tmp_path / "other.safetensors")
    count = len(other.state_dict())
    assert load_weights(model, tmp_path / "other.safetensors") == f"{count} of {count} tensors"
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
    names = list(other.state_dict())
    part = {names[-1]: other.state_dict()[names[-1]], "not_ours": torch.zeros(3)}
    torch.save({"epoch": 3, "model_state_dict": part}, tmp_path / "quick_demo_model.pth")
    told = load_weights(StreamingAutoEncoder(SMALL), tmp_path / "quick_demo_model.pth")
    assert told.startswith(f"1 of {count} tensors; as they were: ")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("this must not run",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Bomb(), "holds no plain weights"),
        ({"encoder": torch.zeros(2)}, r"1 tensors, none of which fits .* \(it has encoder; wanted are "),
        ([1, 2], "holds list without tensors"),
    ],
)
def test_a_file_that_holds_no_weights_of_ours_is_refused_and_not_run(
    tmp_path: Path, content: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(content, tmp_path / "bad.pth")
    with pytest.raises(CheckpointError, match=message):
        load_weights(StreamingAutoEncoder(SMALL), tmp_path / "bad.pth")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["cut.pth", "cut.safetensors", "absent.pth"])
def test_a_damaged_or_absent_weights_file_is_told(tmp_path: Path, name: str) -> None:
    if not name.startswith("absent"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(CheckpointError, match=name):
        load_weights(StreamingAutoEncoder(SMALL), tmp_path / name)


@pytest.mark.parametrize("name", ["frames", "log_every", "save_every", "keep_checkpoints"])
def test_counts_below_one_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0"):
        AutoEncoderTraining(source="ale:Breakout", **{name: 0})  # type: ignore[arg-type]


def test_settings_saved_under_a_former_name_still_load() -> None:
    assert config.merge(SETTINGS, {"keep": 7}).keep_checkpoints == 7
