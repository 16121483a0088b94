"""Training learns, ends, goes on to the same bits, and keeps its best."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from reelrl.act.location.answers import answers
from reelrl.act.location.dataset import Scenes
from reelrl.act.location.frame_reader.net import FrameReaderNet, FrameReaderSettings
from reelrl.act.location.model.net import CrossEgoVideoLocationNet
from reelrl.act.location.model.settings import ContrastiveSettings, LocationNetSettings
from reelrl.act.location.samples import SampleSettings
from reelrl.act.location.scores import mean_precision
from reelrl.act.location.train import WEIGHTS, LocationTrainer, LocationTraining
from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, frozen_video_encoder
from reelrl.errors import CheckpointError, ConfigError, ContentError
from reelrl.runs.folder import Run
from reelrl.runs.interrupts import Interrupted
from tests.act.location.written_matches import HEIGHT, WIDTH, write_matches

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

NET = LocationNetSettings(
    num_places=1,
    embed_dim=1,
    proj_dim=16,
    fused_agent_dim=16,
    hidden_dim=32,
    contrastive=ContrastiveSettings(loss_weight=0.01),
)
FROZEN = VideoEncoderSettings(model_type="cnn", channels=(4,), embed_dim=16, freeze_backbone=True)
LEARNS = VideoEncoderSettings(model_type="cnn", channels=(4,), embed_dim=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_matches(tmp_path_factory.mktemp("matches"), 6)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def settings_of(folder: Path, **changes: object) -> LocationTraining:
    usual = LocationTraining(
        data=str(folder),
        samples=SampleSettings(frames=2, stride=2, ahead_s=1.0),
        encoder=FROZEN,
        net=NET,
        epochs=3,
        matches_per_batch=3,
        moments_of_each=4,
        lr=5e-3,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def trainer_of(settings: LocationTraining, root: Path, seed: int = 0) -> LocationTrainer:
    scenes = Scenes(settings, ["train", "val"])
    run = Run.create(root, scenes.settings, stage="location", name="test", seed=seed, tensorboard=False)
    return LocationTrainer(scenes.settings, seed, run, scenes)


@pytest.mark.parametrize("encoder", [FROZEN, LEARNS], ids=["embeddings", "video"])
def test_the_net_learns_what_the_rooms_tell(folder: Path, tmp_path: Path, encoder: VideoEncoderSettings) -> None:
    """Colours tell every player's own room: with everybody watching, the rooms that hold somebody."""
    trainer = trainer_of(settings_of(folder, encoder=encoder, epochs=10, patience=10), tmp_path)
    trainer.train()
    trainer.run.close()
    net = CrossEgoVideoLocationNet.load(trainer.run.artifacts / WEIGHTS)
    assert (net.encoder is None) == (encoder is FROZEN)
    moments = trainer.scenes.moments["val"]
    said = answers(trainer.net, trainer.scenes.clips["val"], moments, trainer.settings.pooling, moments.present)
    truth = moments.targets(moments.present)
    assert mean_precision(said["mates_now"], truth["mates_now"]) > 0.9 > truth["mates_now"].mean()


def test_a_resumed_training_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    whole = trainer_of(settings_of(folder), tmp_path / "whole")
    whole.train()
    whole.run.close()

    first = trainer_of(settings_of(folder), tmp_path / "parts")
    seen: list[int] = []

    def interrupt_in_the_second_epoch(moments: int) -> None:
        seen.append(moments)
        if first.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        first.train(on_batch=interrupt_in_the_second_epoch)
    first.run.close()
    with Run.open(first.run.folder, tensorboard=False) as run:
        second = LocationTrainer(first.settings, 0, run, first.scenes)
        assert second.resume()
        assert second.epoch == 1
        second.train()
    for one, other in zip(whole.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [line["val/precision"] for line in whole.run.metrics()] == [line["val/precision"] for line in run.metrics()]


def test_an_encoder_that_learned_with_a_net_serves_frozen(folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of(settings_of(folder, encoder=LEARNS, epochs=1), tmp_path)
    trainer.train()
    trainer.run.close()
    frozen = replace(LEARNS, freeze_backbone=True, weights=str(trainer.run.artifacts / WEIGHTS))
    encoder = frozen_video_encoder(frozen, ClipShape(2, 3, HEIGHT, WIDTH))
    assert trainer.net.encoder is not None
    for one, other in zip(trainer.net.encoder.parameters(), encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(CheckpointError, match="do not fit clips of"):
        frozen_video_encoder(replace(frozen, embed_dim=8), ClipShape(2, 3, HEIGHT, WIDTH))


def test_another_seed_is_another_net(folder: Path, tmp_path: Path) -> None:
    nets = []
    for seed in (0, 1):
        trainer = trainer_of(settings_of(folder, epochs=1), tmp_path, seed)
        trainer.train()
        trainer.run.close()
        nets.append(torch.cat([parameter.flatten() for parameter in trainer.net.parameters()]))
    assert not torch.equal(*nets)


def test_it_ends_when_nothing_gets_better_and_the_best_stays(folder: Path, tmp_path: Path) -> None:
    trainer = trainer_of(settings_of(folder, epochs=50, patience=2, lr=1e-9), tmp_path)
    trainer.train()
    trainer.run.close()
    scores = [line["val/precision"] for line in trainer.run.metrics()]
    assert len(scores) < 50
    assert trainer.best_score == max(scores)
    assert trainer.epoch == trainer.best_epoch + 2


def test_the_net_is_made_to_fit_the_data(folder: Path, tmp_path: Path) -> None:
    settings = Scenes(settings_of(folder, pooling="mean+last"), ["train"]).settings
    assert (settings.map, settings.net.num_places, settings.net.num_agents) == ("four-rooms", 4, 3)
    assert settings.net.embed_dim == 32
    video = Scenes(settings_of(folder, encoder=LEARNS), ["train"]).settings
    assert video.net.embed_dim is None
    assert video.net.clip == (2, 3, 24, 32)


def test_a_memory_needs_a_frame_reader(folder: Path) -> None:
    with pytest.raises(ConfigError, match="give --frame-reader RUN"):
        Scenes(settings_of(folder, pooling="memory"), ["train"])
    learns = VideoEncoderSettings(model_type="frame-reader")
    with pytest.raises(ConfigError, match="needs what a frozen frame reader says"):
        Scenes(settings_of(folder, pooling="memory", encoder=learns), ["train"])


def test_a_memory_needs_a_frame_reader_that_knows_these_places(folder: Path, tmp_path: Path) -> None:
    known = FrameReaderSettings(
        places=2, picture=(HEIGHT, WIDTH), channels=(4, 4), blocks=(0, 0), embed_dim=8, column_dim=8
    )
    FrameReaderNet(known).save(tmp_path / "reader.safetensors")
    reader = VideoEncoderSettings(
        model_type="frame-reader", freeze_backbone=True, weights=str(tmp_path / "reader.safetensors")
    )
    with pytest.raises(
        ConfigError,
        match=r"this frame reader knows 2 places and 1 players, and matches on four-rooms in .* have 4 and 3",
    ):
        Scenes(settings_of(folder, pooling="memory", encoder=reader), ["train"])


def test_data_that_cannot_be_learned_from_is_told(folder: Path, tmp_path: Path) -> None:
    few = write_matches(tmp_path / "few", 3)
    with pytest.raises(
        ContentError, match=r"has 0 of the 1 or more matches of split .val. on map .*; six matches have all splits"
    ):
        Scenes(settings_of(few), ["train", "val"])
    with pytest.raises(ConfigError, match="has no matches on map 'four-room'; did you mean 'four-rooms'"):
        Scenes(settings_of(folder, map="four-room"), ["train"])
    with pytest.raises(ContentError, match="holds no matches"):
        Scenes(settings_of(tmp_path / "nowhere"), ["train"])


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"answers": 0}, {"lr": 0.0}, {"apart_s": -1.0}, {"picture_size": (0, 4)}]
)
def test_settings_that_cannot_be_are_told(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        settings_of(tmp_path, **wrong)
