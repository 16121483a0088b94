"""What was seen is kept: equal to looking anew, made once, and refused when it is of something else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.row_encoders import FrozenRowEncoder, Thumbnails
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.recording.reader import MatchData
from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, frozen_video_encoder
from reelrl.errors import ConfigError, ContentError
from tests.act.location.written_matches import HEIGHT, PLAN, WIDTH, write_matches

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SAMPLES = SampleSettings(frames=3, stride=2, ahead_s=1.0)
CNN = VideoEncoderSettings(model_type="cnn", channels=(4,), embed_dim=8, freeze_backbone=True)
FRAMES = VideoEncoderSettings(model_type="video-transformer", embed_dim=8, patch=8, depth=1, freeze_backbone=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MatchData:
    return MatchData.open(write_matches(tmp_path_factory.mktemp("matches"), 2))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))


def moments_of(data: MatchData) -> Moments:
    return Moments.of(data, data.matches, SAMPLES, PLAN)


@pytest.mark.parametrize("encoder", [CNN, FRAMES], ids=lambda each: each.model_type)
def test_kept_embeddings_are_those_of_the_clip(data: MatchData, encoder: VideoEncoderSettings) -> None:
    moments = moments_of(data)
    clips = Clips.of(data, data.matches, Store(FrozenRowEncoder(encoder, SAMPLES)))
    number, player = len(moments) - 5, 1
    rows = SAMPLES.clip_rows(moments.row[number])
    pictures = data.match(moments.matches[moments.match[number]].id).frames(player, rows)
    video = torch.from_numpy(pictures).permute(0, 3, 1, 2)[None]
    if encoder is CNN:  # sees the clip as one
        wanted = frozen_video_encoder(encoder, ClipShape(3, 3, HEIGHT, WIDTH))(video)[0, 0]
    else:
        alone = frozen_video_encoder(encoder, ClipShape(1, 3, HEIGHT, WIDTH))
        wanted = torch.stack([alone(video[:, [frame]])[0, 0] for frame in range(3)]).mean(0)
    found = clips.embeddings(moments.take(np.array([number])), "mean")[0, player]
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


def test_pictures_are_those_of_the_clip(data: MatchData) -> None:
    moments = moments_of(data)
    clips = Clips.of(data, data.matches, Store(Thumbnails(SAMPLES)))
    number, player = 7, 2
    rows = SAMPLES.clip_rows(moments.row[number])
    wanted = data.match(moments.matches[moments.match[number]].id).frames(player, rows).transpose(0, 3, 1, 2)
    assert (clips.video(moments.take(np.array([number])))[0, player].numpy() == wanted).all()
    assert clips.clip_shape == (3, 3, HEIGHT, WIDTH)


def test_pictures_may_be_shrunk(data: MatchData) -> None:
    moments = moments_of(data)
    small = Clips.of(data, data.matches, Store(Thumbnails(SAMPLES, (12, 16))))
    assert small.video(moments).shape == (len(moments), 3, 3, 3, 12, 16)
    clips = Clips.of(data, data.matches, Store(FrozenRowEncoder(FRAMES, SAMPLES, (12, 16))))
    alone = frozen_video_encoder(FRAMES, ClipShape(1, 3, 12, 16))
    frames = small.video(moments.take(np.array([9])))[0, 1]
    wanted = torch.stack([alone(frame[None, None])[0, 0] for frame in frames])
    found = clips.embeddings(moments.take(np.array([9])), "mean+last")[0, 1]
    torch.testing.assert_close(found, torch.cat([wanted.mean(0), wanted[-1]]), atol=2e-3, rtol=2e-3)


def test_who_is_not_present_is_not_shown(data: MatchData) -> None:
    moments = moments_of(data)
    moments.present[:, 1] = False
    clips = Clips.of(data, data.matches, Store(FrozenRowEncoder(FRAMES, SAMPLES)))
    found = clips.embeddings(moments, "mean+last")
    assert not found[:, 1].any()
    assert found[:, 0].any()
    assert found.shape[2] == clips.width("mean+last") == 16


def test_histories_end_at_the_last_moment_and_the_dead_see_nothing(data: MatchData, tmp_path: Path) -> None:
    store, moments = Store(FrozenRowEncoder(FRAMES, SAMPLES)), moments_of(data)
    clips = Clips.of(data, data.matches, store)
    chosen = moments.take(np.array([len(moments) - 5, 3]))
    histories, which, steps = clips.histories(chosen)
    assert which.tolist() == [1, 0]
    assert (steps == chosen.row // 2).all()
    assert histories.shape == (2, 3, steps.max() + 1, 8)
    last = clips.embeddings(chosen, "last")
    assert torch.equal(histories[torch.from_numpy(which), :, torch.from_numpy(steps)], last)
    kept = data.match(data.matches[0].id).labels
    dead = replace(kept, alive=kept.alive & (np.arange(len(kept)) < 20)[:, None])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(data.match(data.matches[0].id)), "labels", dead)
        after, _, _ = Clips.of(data, data.matches, store).histories(chosen)
    assert torch.equal(after[:, :, :10], histories[:, :, :10])
    assert not after[:, :, 10:].any()


def test_a_match_is_looked_at_once(data: MatchData) -> None:
    store = Store(FrozenRowEncoder(CNN, SAMPLES))
    first = Clips.of(data, data.matches, store).table
    looked: list[int] = []
    again = store.rows(data, data.matches[0], looked.append)
    assert not looked
    assert (again.reshape(-1, 8) == first[: again.shape[0] * again.shape[1]].numpy()).all()


def test_a_damaged_file_of_the_cache_is_made_anew_and_told(data: MatchData) -> None:
    store = Store(FrozenRowEncoder(CNN, SAMPLES))
    whole = store.rows(data, data.matches[0], lambda _: None)
    path = store.path(data.matches[0])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="made anew"):
        again = store.rows(data, data.matches[0], lambda _: None)
    assert (again == whole).all()


def test_a_truncated_file_of_ones_own_is_an_error_that_says_so(data: MatchData, tmp_path: Path) -> None:
    store = Store(FrozenRowEncoder(CNN, SAMPLES), tmp_path)
    store.rows(data, data.matches[0], lambda _: None)
    path = store.path(data.matches[0])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ContentError, match=r"remove it, and it will be made again"):
        store.rows(data, data.matches[0], lambda _: None)


def test_embeddings_of_another_encoder_are_refused(data: MatchData, tmp_path: Path) -> None:
    Clips.of(data, data.matches, Store(FrozenRowEncoder(CNN, SAMPLES), tmp_path))
    with pytest.raises(ContentError, match=r"made with encoder .*'cnn'.*, and encoder .*'video-transformer'"):
        Clips.of(data, data.matches, Store(FrozenRowEncoder(FRAMES, SAMPLES), tmp_path))


def test_embeddings_of_other_videos_are_refused(data: MatchData, tmp_path: Path) -> None:
    store = Store(FrozenRowEncoder(CNN, SAMPLES), tmp_path / "kept")
    first, second = data.matches
    store.rows(data, first, lambda _: None)
    store.path(first).rename(store.path(second))
    with pytest.raises(ContentError, match="from other videos than those of match four-rooms-0001"):
        store.rows(data, second, lambda _: None)


def test_precomputed_means_that_no_video_is_looked_at(data: MatchData, tmp_path: Path) -> None:
    encoder = FrozenRowEncoder(CNN, SAMPLES)
    with pytest.raises(ContentError, match="has nothing for match four-rooms-0000"):
        Clips.of(data, data.matches, Store(encoder, tmp_path, make=False))
    made = Clips.of(data, data.matches, Store(encoder, tmp_path)).table
    assert (Clips.of(data, data.matches, Store(encoder, tmp_path, make=False)).table == made).all()


def test_asking_embeddings_for_video_and_the_reverse_is_told(data: MatchData) -> None:
    moments = moments_of(data)
    with pytest.raises(ConfigError, match="only precomputed embeddings are here"):
        Clips.of(data, data.matches, Store(FrozenRowEncoder(CNN, SAMPLES))).video(moments)
    with pytest.raises(ConfigError, match="these are pictures"):
        Clips.of(data, data.matches, Store(Thumbnails(SAMPLES))).embeddings(moments, "mean")


def test_weights_under_the_same_name_are_another_encoder(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    stores = []
    for content in (b"one", b"two"):
        path.write_bytes(content)
        encoder = VideoEncoderSettings(model_type="effnet-lite0", freeze_backbone=True, weights=str(path))
        stores.append(Store(FrozenRowEncoder(encoder, SAMPLES)).folder)
    assert stores[0] != stores[1]
