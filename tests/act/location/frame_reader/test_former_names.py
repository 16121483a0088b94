"""What version 0.1 called eyes and looks: its runs, weights, embeddings and settings, and what people type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from reelrl.act.location.embeddings import Store
from reelrl.act.location.frame_reader.net import FrameReaderNet, FrameReaderSettings
from reelrl.act.location.frame_reader.train import FrameReaderTraining, weights_of
from reelrl.act.location.row_encoders import FrozenRowEncoder
from reelrl.act.location.samples import SampleSettings
from reelrl.act.location.train import LocationTraining
from reelrl.act.recording.reader import MatchData
from reelrl.act.video.encoder import ENCODERS, FORMER_ENCODERS, VideoEncoderSettings
from reelrl.cli.main import main
from reelrl.runs import checkpoint_file
from reelrl.runs.folder import RunFolder
from reelrl.settings import config
from tests.act.location.written_matches import HEIGHT, WIDTH, write_matches

if TYPE_CHECKING:
    from pathlib import Path

SMALL = FrameReaderSettings(
    places=4,
    players=3,
    enemies=2,
    picture=(HEIGHT, WIDTH),
    channels=(4, 4),
    blocks=(0, 0),
    embed_dim=8,
    column_dim=8,
)
SAMPLES = SampleSettings(frames=2, stride=4, ahead_s=1.0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))


def write_as_before(today: Path, path: Path) -> None:
    """The same net as version 0.1 saved it."""
    with safe_open(today, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        (text,) = file.metadata().values()
    save_file(tensors, path, {"eyes": text})


def old_weights(folder: Path) -> Path:
    torch.manual_seed(0)
    FrameReaderNet(SMALL).save(folder / "today.safetensors")
    write_as_before(folder / "today.safetensors", folder / "eyes.safetensors")
    return folder / "eyes.safetensors"


def test_weights_of_before_are_the_same_net(tmp_path: Path) -> None:
    old = FrameReaderNet.load(old_weights(tmp_path))
    new = FrameReaderNet.load(tmp_path / "today.safetensors")
    assert old.settings == new.settings
    assert all(torch.equal(a, b) for a, b in zip(old.state_dict().values(), new.state_dict().values(), strict=True))


def test_an_encoder_called_eyes_is_a_frame_reader() -> None:
    read = config.loads(VideoEncoderSettings, "model_type: eyes")
    assert read == VideoEncoderSettings(model_type="frame-reader")
    assert config.to_mapping(read)["model_type"] == "frame-reader"
    assert set(FORMER_ENCODERS.values()) <= set(ENCODERS)
    assert config.loads(LocationTraining, "data: d\nlooks: 4").frames_per_row == 4


def test_embeddings_made_before_are_taken(tmp_path: Path) -> None:
    """From the same place in the cache: what a file depends on is written as it was."""
    data = MatchData.open(write_matches(tmp_path / "matches", 2))
    eyes = VideoEncoderSettings(model_type="eyes", freeze_backbone=True, weights=str(old_weights(tmp_path)))
    store = Store(FrozenRowEncoder(eyes, SAMPLES, frames_per_row=2))
    assert store.encoder.facts["encoder"]["model_type"] == "eyes"
    made = store.rows(data, data.matches[0], lambda _: None)
    path = store.path(data.matches[0])
    found = checkpoint_file.load(path)
    checkpoint_file.save(path, 0, found.tensors, {"eyes": found.state["encoder"], "videos": found.state["videos"]})
    looked: list[int] = []
    assert (store.rows(data, data.matches[0], looked.append) == made).all()
    assert not looked


@pytest.mark.long
@pytest.mark.slow
def test_a_run_of_before_serves_by_the_words_of_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_matches(tmp_path / "matches", 6)
    runs = ["--output-dir", str(tmp_path / "runs")]
    small = ["--set", "net={channels: [8, 8], blocks: [0, 0], embed_dim: 32, column_dim: 16}", "--set", "batch=64"]
    assert main(["train", "eyes", str(folder), *runs, *small, "--epochs", "1"]) == 0
    assert capsys.readouterr().err.count("`reel train eyes` is now `reel train frame-reader`") == 1
    run = RunFolder(tmp_path / "runs" / "0001")
    text = run.config_text()
    assert text.startswith("stage: frame-reader\n")
    (run.folder / "config.yaml").write_text(
        text.replace("stage: frame-reader", "stage: eyes").replace("augmentation:", "shake:")
    )
    write_as_before(weights_of(run), run.artifacts / "eyes.safetensors")
    weights_of(run).unlink()
    assert run.stage == "frame-reader"
    assert "  shake: 0.04\n" in run.config_text()
    assert run.settings(FrameReaderTraining).augmentation == 0.04
    assert main(["train", "frame-reader", "--resume", str(run.folder)]) == 0

    short = ["--set", "samples.frames=2", "--set", "samples.ahead_s=1.0", "--set", "looks=4", "--epochs", "1"]
    capsys.readouterr()
    assert main(["train", "location", str(folder), "--eyes", str(run.folder), *runs, *short]) == 0
    err = capsys.readouterr().err
    assert "`reel train location --eyes` is now `reel train location --frame-reader`" in err
    assert "--set looks is now frames_per_row" in err
    net = RunFolder(tmp_path / "runs" / "0002")
    text, settings = net.config_text(), net.settings(LocationTraining)
    assert settings.encoder.weights == str(run.artifacts / "eyes.safetensors")
    old = text.replace("frames_per_row: 4", "looks: 4").replace("model_type: frame-reader", "model_type: eyes")
    assert old != text
    (net.folder / "config.yaml").write_text(old)
    assert net.settings(LocationTraining) == settings
    assert main(["evaluate", "location", str(net.folder), "--split", "val", "-o", str(tmp_path / "out")]) == 0
    assert "sightings by the frame reader" in capsys.readouterr().out
