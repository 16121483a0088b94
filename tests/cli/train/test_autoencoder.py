"""`reel train autoencoder` on real games: what it leaves, how it stops, and that it goes on to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from reelrl.cli.main import main
from reelrl.runs.folder import RunFolder
from reelrl.see.train import AutoEncoderTraining
from reelrl.settings import config
from tests.runs.outcome import outcome
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SMALL = ["--device", "cpu", "--set", "model.widths=[[2,2],[2,2],[2,2]]", "--set", "log_every=4", "--set", "keep=9"]
GAME = ["--source", "ale:Breakout"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    while _STARTED:
        process = _STARTED.pop()
        process.kill()
        process.communicate()


def train(root: Path, *more: str) -> int:
    return main(["train", "autoencoder", "--output-dir", str(root), *SMALL, *more])


def only_run(root: Path) -> RunFolder:
    (folder,) = root.iterdir()
    return RunFolder(folder)


def started(root: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "reelrl.cli.main", "train", "autoencoder", "--output-dir", str(root)]
    process = subprocess.Popen([*command, *SMALL, *GAME, *more], stdout=subprocess.PIPE, text=True)
    _STARTED.append(process)
    return process


def wait_for_checkpoints(root: Path, count: int) -> RunFolder:
    until(lambda: len(list(root.glob("*/checkpoints/0*"))) >= count, "no checkpoint came")
    return only_run(root)


def test_it_says_what_it_does_and_leaves_a_run(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(run_root, "--frames", "8", "--seed", "0") == 0
    run = only_run(run_root)
    said = capsys.readouterr().out
    source = run.settings(AutoEncoderTraining).source
    assert f"source {source}" in said
    assert "picked by the seed among five games" in said
    assert "frame  8 / 8" in said
    assert "frames/s" in said
    assert all(part in said for part in ("source", "update", "logging", "left"))
    assert said.splitlines()[-1].startswith("next")
    assert [line["step"] for line in run.metrics()] == [4, 8]
    figures = {"mse", "psnr", "mean_frame_psnr", "previous_frame_psnr", "foreground_share", "loss", "ssim"}
    assert figures < next(iter(run.metrics())).keys()
    assert run.stage == "autoencoder"


def test_the_seed_picks_the_game() -> None:
    from reelrl.see.frames.source import GAMES, random_game

    picked = [random_game(seed) for seed in range(60)]
    assert set(picked) == {f"ale:{game}" for game in GAMES}
    assert picked == [random_game(seed) for seed in range(60)]


@pytest.mark.long
@pytest.mark.parametrize("asked_by", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_command_saves_and_resume_goes_on_to_the_same_bits(
    asked_by: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = started(tmp_path / "stopped", "--frames", "100000", "--set", "save_every=3")
    run = wait_for_checkpoints(tmp_path / "stopped", 1)
    running.send_signal(asked_by)
    said, _ = running.communicate(timeout=HANG_S)
    assert running.returncode == 130
    assert "stop   after this frame" in said
    assert f"--resume {run.folder}" in said.splitlines()[-1]
    saved = run.checkpoints.latest()
    assert saved is not None
    frames = str(saved.step + 5)
    assert main(["train", "autoencoder", "--resume", str(run.folder), "--frames", frames, "--device", "cpu"]) == 0
    assert f"resume frame {saved.step}" in capsys.readouterr().out
    assert train(tmp_path / "whole", *GAME, "--frames", frames, "--set", "save_every=3") == 0
    assert outcome(run) == outcome(only_run(tmp_path / "whole"))


@pytest.mark.long
def test_after_kill_9_resume_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    running = started(tmp_path / "killed", "--frames", "100000", "--set", "save_every=3")
    run = wait_for_checkpoints(tmp_path / "killed", 2)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=HANG_S)
    saved = run.checkpoints.latest()
    assert saved is not None
    frames = str(saved.step + 4)
    assert main(["train", "autoencoder", "--resume", str(run.folder), "--frames", frames, "--device", "cpu"]) == 0
    assert train(tmp_path / "whole", *GAME, "--frames", frames, "--set", "save_every=3") == 0
    assert outcome(run) == outcome(only_run(tmp_path / "whole"))


def test_a_source_that_ends_is_told(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(run_root, "--source", "generated:street?frames=4&size=64x48", "--frames", "100") == 0
    assert "has no more frames after frame 4" in capsys.readouterr().out
    assert only_run(run_root).folder.name == "0001-autoencoder-street"


def test_weights_can_be_loaded_and_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "one", *GAME, "--frames", "4") == 0
    weights = only_run(tmp_path / "one").artifacts / "model.safetensors"
    assert train(tmp_path / "two", *GAME, "--frames", "4", "--load", str(weights)) == 0
    said = capsys.readouterr().out
    assert f"load   {weights}" in said
    losses = [next(iter(only_run(tmp_path / name).metrics()))["loss"] for name in ("one", "two")]
    assert losses[1] < losses[0]


def test_the_classic_setting_is_a_name(run_root: Path) -> None:
    assert train(run_root, *GAME, "--config", "obgd", "--frames", "2", "--seed", "5") == 0
    settings = only_run(run_root).settings(AutoEncoderTraining)
    assert settings.model.optimiser.name == "obgd"
    assert settings.model.seed == 5
    assert config.differences(settings.model.optimiser, type(settings.model.optimiser)())["lr"] == 1.0


def test_it_can_be_watched(run_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(run_root, *GAME, "--frames", "2", "--view", "0") == 0
    assert "view   http://127.0.0.1:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "ale:Breakot"], "unknown Atari game 'Breakot'; did you mean 'Breakout'?"),
        (["--source", "doom:nine_rums"], "there is no scenario 'nine_rums'"),
        (["--device", "cuda:7"], "device 'cuda:7' cannot be used"),
        (["--device", "toaster"], "device 'toaster' cannot be used"),
        (["--threads", "0"], "threads = 0"),
        (["--frames", "0"], "frames is 0; it must be 1 or more"),
        (["--load", "nothing.pth"], "--load nothing.pth: there is no such file"),
        (["--set", "model.widht=3"], "widht"),
        (["--config", "obgt"], "did you mean 'obgd'"),
        (["--resume", "runs/none"], "no run at runs/none"),
        (["--view", "99999"], "port is 99999"),
    ],
)
def test_what_cannot_be_right_leaves_no_run(
    run_root: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.device_count() > 7:
        pytest.skip("there are that many GPUs here")
    assert train(run_root, *arguments) == 1
    assert message in capsys.readouterr().err
    assert not run_root.exists() or not list(run_root.iterdir())
