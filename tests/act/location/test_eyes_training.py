"""Eyes learn what is on pictures, and serve the location net frozen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.location.baselines import LastSeen, Prior
from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.eyes import FrozenEyes
from reelrl.act.location.eyes_training import WEIGHTS, EyesTrainer, EyesTraining, open_glances, schedule, shaken
from reelrl.act.location.precision import mean_precision
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.location.seen_by_eyes import SeenByEyes
from reelrl.act.recording.reader import MatchData
from reelrl.act.video_encoder import ClipShape, VideoEncoderSettings, frozen_video_encoder
from reelrl.cli.main import main
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import Run
from tests.act.location.written_matches import HEIGHT, PLAN, WIDTH, rooms_of, write_matches

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.location.glances import Glances

SMALL = VideoEncoderSettings(model_type="cnn", channels=(4,), embed_dim=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_matches(tmp_path_factory.mktemp("matches"), 6)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "eyes-cache"))


def settings_of(folder: Path) -> EyesTraining:
    return EyesTraining(data=str(folder), encoder=SMALL, epochs=8, batch=16, lr=5e-3, dropout=0.0)


def trainer_of(settings: EyesTraining, glances: dict[str, Glances], root: Path) -> EyesTrainer:
    run = Run.create(root, settings, stage="eyes", name="eyes", seed=0, tensorboard=False)
    return EyesTrainer(settings, 0, run, glances)


def test_a_glance_says_what_the_recording_says(folder: Path) -> None:
    glances = open_glances(settings_of(folder))["val"]
    data = MatchData.open(folder)
    info = next(each for each in data.matches if each.split == "val")
    labels = data.match(info.id).labels
    rooms = rooms_of(labels)[::2]
    assert len(glances) == rooms.size
    first = slice(0, len(rooms))  # player 0
    assert (glances.place[first].numpy() == rooms[:, 0]).all()
    together = rooms[:, 1:] == rooms[:, [0]]
    assert (glances.mates[first].any(1).numpy() == together.any(1)).all()
    assert (glances.mates[first].int().argmax(1).numpy()[together.any(1)] == rooms[together.any(1), 0]).all()
    assert (glances.pictures[0].numpy() == data.match(info.id).frames(0, [0])[0].transpose(2, 0, 1)).all()


def test_eyes_learn_and_a_resumed_training_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    settings = settings_of(folder)
    glances = open_glances(settings)
    whole = trainer_of(settings, glances, tmp_path / "whole")
    whole.train()
    whole.run.close()
    assert whole.figures["val/place"] > 0.9
    half = trainer_of(settings, glances, tmp_path / "half")
    half.epochs = 4
    half.train()
    half.run.close()
    with Run.open(half.run.folder, tensorboard=False) as run:
        rest = EyesTrainer(settings, 0, run, glances)
        assert rest.resume()
        assert rest.train() == "done"
    for one, other in zip(whole.net.parameters(), rest.net.parameters(), strict=True):
        assert torch.equal(one, other)


def test_trained_eyes_see_frozen_what_they_saw_in_training(folder: Path, tmp_path: Path) -> None:
    settings = settings_of(folder)
    trainer = trainer_of(replace(settings, epochs=1), open_glances(settings), tmp_path)
    trainer.train()
    trainer.run.close()
    path = str(trainer.run.artifacts / WEIGHTS)
    frozen = replace(SMALL, freeze_backbone=True, weights=path)
    data = MatchData.open(folder)
    samples = SampleSettings(frames=2, stride=2, ahead_s=1.0)
    moments = Moments.of(data, data.matches[:1], samples, PLAN)
    clips = Clips.of(data, data.matches[:1], Store(FrozenEyes(frozen, samples, at_once=1)))
    picture = data.match(data.matches[0].id).frames(1, [int(moments.row[3])]).transpose(0, 3, 1, 2)
    trainer.net.eval()
    wanted = trainer.net.encoder(torch.from_numpy(picture.copy())[:, None])[0, 0]
    found = clips.embeddings(moments.take(np.array([3])), "last")[0, 1]
    torch.testing.assert_close(found, wanted.detach(), atol=2e-3, rtol=2e-3)
    with pytest.raises(CheckpointError, match="do not fit clips of"):
        frozen_video_encoder(replace(frozen, embed_dim=8), ClipShape(1, 3, HEIGHT, WIDTH))


def test_what_eyes_see_is_better_than_the_prior_and_worse_than_being_told(folder: Path, tmp_path: Path) -> None:
    settings = settings_of(folder)
    trainer = trainer_of(settings, open_glances(settings), tmp_path)
    trainer.train()
    trainer.run.close()
    path = trainer.run.artifacts / WEIGHTS
    data = MatchData.open(folder)
    samples = SampleSettings(frames=2, stride=2, ahead_s=1.0)
    moments = Moments.of(data, data.matches, samples, PLAN)
    eyes = FrozenEyes(replace(SMALL, freeze_backbone=True, weights=str(path)), samples, at_once=1)
    clips = Clips.of(data, data.matches, Store(eyes))
    views, pov = moments.single_views()
    scores = []
    for baseline in (Prior(), SeenByEyes(path, {moments.matches: clips}), LastSeen(data, PLAN, samples, 2)):
        baseline.fit(views, pov)
        scores.append(mean_precision(baseline.answer(views, pov)["mates_now"], views.targets(pov)["mates_now"]))
    assert scores[0] + 0.02 < scores[1] < scores[2] + 0.02


def test_shaking_moves_a_picture_and_leaves_its_kind() -> None:
    pictures = torch.randint(0, 256, (20, 3, 30, 40), dtype=torch.uint8)
    shaken_ones = shaken(pictures, np.random.default_rng(0), 0.1)
    assert shaken_ones.shape == pictures.shape
    assert 0 <= shaken_ones.min() <= shaken_ones.max() <= 255
    assert not torch.equal(shaken_ones, pictures.float())
    assert torch.equal(shaken(pictures, np.random.default_rng(0), 0.0), pictures)
    again = shaken(pictures, np.random.default_rng(0), 0.1)
    assert torch.equal(again, shaken_ones)


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [schedule(step / 100) for step in range(101)]
    assert max(shares) == pytest.approx(1)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(0)
    assert shares[10:] == sorted(shares[10:], reverse=True)


def test_two_commands_lead_from_matches_to_a_net(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--output-dir", str(tmp_path)]
    small = ["--set", "encoder.channels=[4]", "--set", "encoder.embed_dim=16", "--set", "batch=64"]
    assert main(["train", "eyes", str(folder), *runs, *small, "--epochs", "1"]) == 0
    assert f"reel train location {folder} --eyes" in capsys.readouterr().out
    eyes = str(tmp_path / "0001")
    short = ["--set", "samples.frames=2", "--set", "samples.ahead_s=1.0", "--epochs", "1"]
    assert main(["train", "location", str(folder), "--eyes", eyes, *runs, *short]) == 0
    assert "cnn" in capsys.readouterr().out
    assert main(["evaluate", "location", str(tmp_path / "0002"), "--split", "val", "-o", str(tmp_path / "out")]) == 0
    assert "seen by the eyes" in capsys.readouterr().out
    assert main(["train", "location", str(folder), "--eyes", str(tmp_path / "0002"), *runs]) == 1
    assert "give one of `reel train eyes`" in capsys.readouterr().err


def test_settings_that_cannot_be_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="frozen eyes learn nothing"):
        EyesTraining(data=str(tmp_path), encoder=replace(SMALL, freeze_backbone=True))
    with pytest.raises(ConfigError, match="batch is 0"):
        EyesTraining(data=str(tmp_path), batch=0)
