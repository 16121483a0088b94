"""A frame reader learns what is on frames, and serves the location net frozen."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.location.baselines.frame_reader import FrameReaderSightings
from reelrl.act.location.baselines.simple import Prior
from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.epochs import schedule
from reelrl.act.location.frame_reader.labelled_frames import _across, distinct_bodies
from reelrl.act.location.frame_reader.net import OF_A_PLACE, FrameReaderNet, FrameReaderSettings
from reelrl.act.location.frame_reader.train import (
    WEIGHTS,
    FrameReaderTrainer,
    FrameReaderTraining,
    augmented,
    open_labelled_frames,
)
from reelrl.act.location.row_encoders import FrozenRowEncoder
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.location.scores import mean_precision
from reelrl.act.recording.reader import MatchData
from reelrl.act.video.encoder import VideoEncoderSettings
from reelrl.cli.main import main
from reelrl.errors import ConfigError, ContentError
from reelrl.parallel import executor
from reelrl.runs.folder import Run
from reelrl.runs.interrupts import Interrupted
from tests.act.location.written_matches import HEIGHT, PLAN, WIDTH, rooms_of, write_matches

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.location.frame_reader.labelled_frames import LabelledFrames

pytestmark = pytest.mark.slow

SMALL = FrameReaderSettings(channels=(8, 8), blocks=(0, 0), embed_dim=32, column_dim=16, dropout=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_matches(tmp_path_factory.mktemp("matches"), 6)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path_factory.getbasetemp() / "frame-reader-cache"))


def settings_of(folder: Path) -> FrameReaderTraining:
    return FrameReaderTraining(data=str(folder), net=SMALL, stride=2, epochs=8, batch=16, lr=5e-3)


def trainer_of(settings: FrameReaderTraining, frames: dict[str, LabelledFrames], root: Path) -> FrameReaderTrainer:
    run = Run.create(root, settings, stage="frame-reader", name="frame-reader", seed=0, tensorboard=False)
    return FrameReaderTrainer(settings, 0, run, frames)


def frozen(path: object) -> VideoEncoderSettings:
    return VideoEncoderSettings(model_type="frame-reader", freeze_backbone=True, weights=str(path))


def test_a_labelled_frame_says_what_the_recording_says(folder: Path) -> None:
    settings, found = open_labelled_frames(settings_of(folder))
    frames = found["val"]
    assert (settings.map, settings.net.places, settings.net.picture) == ("four-rooms", 4, (24, 32))
    data = MatchData.open(folder)
    info = next(each for each in data.matches if each.split == "val")
    labels = data.match(info.id).labels
    rooms = rooms_of(labels)[::2]
    assert len(frames) == rooms.size
    first = slice(0, len(rooms))  # player 0
    assert (frames.cell[first].numpy() // OF_A_PLACE == rooms[:, 0]).all()
    assert (frames.heading[first] == 0).all()
    assert (settings.net.players, settings.net.enemies) == (3, 2)
    mates = (frames.seen_cell[first] >= 0) & (frames.seen_body[first] < 3)
    assert (mates.sum(1).numpy() == labels.sees_mate[::2, 0].sum(1)).all()
    enemies = (frames.seen_cell[first] >= 0) & (frames.seen_body[first] >= 3)
    assert (enemies.sum(1).numpy() == labels.sees_enemy[::2, 0].sum(1)).all()
    second = ((frames.seen_cell[first] >= 0) & (frames.seen_body[first] == 4)).any(1)
    assert (second.numpy() == labels.sees_enemy[::2, 0, 1]).all()
    assert (frames.seen_cell[first][mates] // OF_A_PLACE == frames.cell[first, None].expand_as(mates)[mates] // 9).all()
    assert (frames.pictures[0].numpy() == data.match(info.id).frames(0, [0])[0].transpose(2, 0, 1)).all()


def test_players_are_known_by_their_numbers(folder: Path) -> None:
    data = MatchData.open(folder)
    assert distinct_bodies(data, data.matches) == (3, 2)
    with pytest.raises(ContentError, match="have from 2 to 3 players"):
        distinct_bodies(data, [data.matches[0], replace(data.matches[1], players=2)])


def test_bodies_are_where_the_field_of_view_has_them() -> None:
    """Looking east: who is north of the way is on the left, at 45 degrees at the edge, and narrower when farther."""
    away = np.array([[[100.0, 0, 0], [100, 60, 0], [100, -100, 0], [400, 0, 0]]])
    span, depth = _across(away, np.array([0.0]), 160)
    middle = span.mean(-1)[0]
    assert middle[:2].tolist() == pytest.approx([80, 32])
    assert span[0, 2].tolist() == pytest.approx([160 - 12.8, 160 + 12.8])
    assert span[0, 3, 1] - span[0, 3, 0] == pytest.approx((span[0, 0, 1] - span[0, 0, 0]) / 4)
    assert depth[0].tolist() == [100, 100, 100, 400]
    north = np.array([[[0.0, 100, 0], [60, 100, 0], [0, 100, 0], [0, 400, 0]]])
    turned, _ = _across(north, np.array([90.0]), 160)
    assert turned[0, 1].mean() == pytest.approx(128)


@pytest.mark.long
def test_decoding_in_two_processes_gives_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, one = open_labelled_frames(settings_of(folder))
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path))
    with executor(2) as work:
        _, two = open_labelled_frames(settings_of(folder), work.map)
    assert torch.equal(one["val"].pictures, two["val"].pictures)
    assert torch.equal(one["train"].seen_span, two["train"].seen_span)


def test_it_learns_and_a_resumed_training_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    settings, frames = open_labelled_frames(settings_of(folder))
    whole = trainer_of(settings, frames, tmp_path / "whole")
    whole.train()
    whole.run.close()
    assert whole.figures["val/place"] > 0.9
    half = trainer_of(settings, frames, tmp_path / "half")

    def interrupt_in_the_fifth_epoch(_: int) -> None:
        if half.epoch == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        half.train(on_batch=interrupt_in_the_fifth_epoch)
    half.run.close()
    with Run.open(half.run.folder, tensorboard=False) as run:
        rest = FrameReaderTrainer(settings, 0, run, frames)
        assert rest.resume()
        rest.train()
    for one, other in zip(whole.net.state_dict().values(), rest.net.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_of_two_frames_per_row_the_surest_reading_counts(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = FrameReaderNet(replace(SMALL, places=4, players=3, enemies=2, picture=(HEIGHT, WIDTH))).eval()
    net.save(tmp_path / WEIGHTS)
    samples = SampleSettings(frames=2, stride=4, ahead_s=1.0)
    match = (data := MatchData.open(folder)).match(data.matches[0].id)
    found = FrozenRowEncoder(frozen(tmp_path / WEIGHTS), samples, frames_per_row=2).encode(match, lambda _: None)
    rows = np.arange(0, match.info.frames, 4)
    for player in (0, 2):
        read = [match.frames(player, np.maximum(rows - back, 0)).transpose(0, 3, 1, 2) for back in (2, 0)]
        with torch.no_grad():
            before, now = (net.readings(torch.from_numpy(np.ascontiguousarray(each))) for each in read)
        wanted = torch.cat([now[..., :4], torch.maximum(before, now)[..., 4:]], -1).flatten(1)
        torch.testing.assert_close(torch.from_numpy(found[player]).float(), wanted, atol=1e-3, rtol=1e-3)
    with pytest.raises(ConfigError, match="frames_per_row is 3, and rows are 4 frames apart"):
        FrozenRowEncoder(frozen(tmp_path / WEIGHTS), samples, frames_per_row=3)
    with pytest.raises(ConfigError, match="frames_per_row is 2; only a frame reader"):
        FrozenRowEncoder(VideoEncoderSettings(model_type="cnn", freeze_backbone=True), samples, frames_per_row=2)


@pytest.mark.long
def test_what_it_sees_is_better_than_the_prior(folder: Path, tmp_path: Path) -> None:
    settings, frames = open_labelled_frames(settings_of(folder))
    trainer = trainer_of(settings, frames, tmp_path)
    trainer.train()
    trainer.run.close()
    data = MatchData.open(folder)
    samples = SampleSettings(frames=2, stride=2, ahead_s=1.0)
    moments = Moments.of(data, data.matches, samples, PLAN)
    store = Store(FrozenRowEncoder(frozen(trainer.run.artifacts / WEIGHTS), samples))
    clips = Clips.of(data, data.matches, store)
    sightings = FrameReaderSightings(data, PLAN, samples, {moments.matches: clips})
    views, pov = moments.single_views()
    scores = []
    for baseline in (Prior(), sightings):
        baseline.fit(views, pov)
        scores.append(mean_precision(baseline.answer(views, pov)["mates_now"], views.targets(pov)["mates_now"]))
    assert scores[0] + 0.02 < scores[1]


def test_augmentation_moves_a_picture_and_all_who_are_on_it(folder: Path) -> None:
    _, found = open_labelled_frames(settings_of(folder))
    frames = found["val"].take(torch.arange(20))
    moved = augmented(frames, np.random.default_rng(0), 0.1)
    assert moved.pictures.shape == frames.pictures.shape
    assert 0 <= moved.pictures.min() <= moved.pictures.max() <= 255
    assert not torch.equal(moved.pictures, frames.pictures.float())
    right = (moved.seen_span - frames.seen_span)[:, 0, 0]
    assert len(set(right.tolist())) > 3
    assert right.abs().max() <= 0.1 * WIDTH + 1
    assert torch.equal(augmented(frames, np.random.default_rng(0), 0.0).pictures, frames.pictures)
    assert torch.equal(augmented(frames, np.random.default_rng(0), 0.1).pictures, moved.pictures)


def test_the_learning_rate_rises_and_falls() -> None:
    shares = [schedule(step / 100) for step in range(101)]
    assert max(shares) == pytest.approx(1)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(0)
    assert shares[10:] == sorted(shares[10:], reverse=True)


@pytest.mark.long
def test_two_commands_lead_from_matches_to_a_net(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--output-dir", str(tmp_path)]
    small = ["--set", "net={channels: [8, 8], blocks: [0, 0], embed_dim: 32, column_dim: 16}", "--set", "batch=64"]
    assert main(["train", "frame-reader", str(folder), *runs, *small, "--epochs", "1"]) == 0
    assert f"reel train location {folder} --frame-reader" in capsys.readouterr().out
    reader = str(tmp_path / "0001")
    short = ["--set", "samples.frames=2", "--set", "samples.ahead_s=1.0", "--epochs", "1"]
    assert main(["train", "location", str(folder), "--frame-reader", reader, *runs, *short]) == 0
    assert "frame-reader" in capsys.readouterr().out
    assert main(["evaluate", "location", str(tmp_path / "0002"), "--split", "val", "-o", str(tmp_path / "out")]) == 0
    assert "sightings by the frame reader" in capsys.readouterr().out
    assert main(["train", "location", str(folder), "--frame-reader", str(tmp_path / "0002"), *runs]) == 1
    assert "give one of `reel train frame-reader`" in capsys.readouterr().err
    config = tmp_path / "0001-frame-reader" / "config.yaml"
    assert "map: four-rooms" in config.read_text()
    config.write_text(config.read_text().replace("map: four-rooms", "map: cellar"))
    assert main(["train", "location", str(folder), "--frame-reader", reader, *runs]) == 1
    assert "has no matches on map 'cellar'" in capsys.readouterr().err
    config.write_text(config.read_text().replace("augmentation:", "augmented:"))
    assert main(["train", "location", str(folder), "--frame-reader", reader, *runs]) == 1
    assert "was made by another version" in capsys.readouterr().err


def test_settings_that_cannot_be_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"augmentation is 0\.5"):
        FrameReaderTraining(data=str(tmp_path), augmentation=0.5)
    with pytest.raises(ConfigError, match="batch is 0"):
        FrameReaderTraining(data=str(tmp_path), batch=0)
