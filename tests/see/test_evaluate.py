"""Rate and probe of an autoencoder. The models here have seen a few frames only: what is tested is the measuring."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.cli.main import main
from reelrl.errors import CheckpointError, ConfigError
from reelrl.see.embeddings.file import Quantiser
from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures import rate
from reelrl.see.measures.baselines import shrunk
from reelrl.see.measures.probe import (
    PCA_SIZE,
    STRENGTHS,
    compare,
    describe,
    labelled_frames,
    probe,
    ridge_errors,
)
from reelrl.see.measures.trained import (
    HELD_OUT_SEED,
    Judge,
    TrainedModel,
    as_inputs,
    decode,
    encode,
    load_trained,
    training_pictures,
)
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.weights import save_weights

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SOURCE = "ale:Breakout"


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    torch.set_num_threads(1)
    model = StreamingAutoEncoder(AutoEncoderSettings())
    whole = TrainedModel("few-frames", model, SOURCE, 0)
    for picture in training_pictures(whole, 12, 5):
        model.learn(torch.from_numpy(picture).permute(2, 0, 1))
    return whole


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(SOURCE, 3)


@pytest.fixture(scope="module")
def points(trained: TrainedModel, judge: Judge) -> list[rate.BytesPoint]:
    frames = torch.cat([to_input(torch.from_numpy(p).permute(2, 0, 1)) for p in training_pictures(trained, 4)])
    return rate.embedding_points(trained, frames, judge) + rate.codec_points(judge)


@pytest.mark.long
def test_more_bytes_buy_less_noise(points: list[rate.BytesPoint]) -> None:
    for name in (rate.ALONE, rate.TOGETHER, rate.DIFFERENCES):
        curve = [point for point in points if point.codec == name]
        assert len(curve) == len(rate.NOISE)
        sizes = [point.bytes_per_frame for point in curve]
        assert sizes == sorted(sizes)
    unquantised = next(point for point in points if point.codec == "embedding, float32")
    finest = [point for point in points if point.codec == rate.TOGETHER][-1]
    assert finest.figures["mse"] == pytest.approx(unquantised.figures["mse"], rel=0.05)


@pytest.mark.long
def test_a_file_of_its_own_costs_a_header_more_and_differences_cost_less(points: list[rate.BytesPoint]) -> None:
    alone, together, differences = (
        [point.bytes_per_frame for point in points if point.codec == name][-1]
        for name in (rate.ALONE, rate.TOGETHER, rate.DIFFERENCES)
    )
    assert alone > together >= differences


def test_the_steps_add_no_more_noise_than_was_allowed(trained: TrainedModel, judge: Judge) -> None:
    known = encode(trained.model, judge.frames)
    worth = rate.channel_worth(trained.model, known)
    allowed = 1e-6
    scale = (12 * allowed / sum(branch[0].size for branch in known)) ** 0.5
    quantiser = Quantiser.fit(known, worth, scale)
    coarse = decode(trained.model, quantiser.values(quantiser.numbers(known)))
    added = float((coarse - decode(trained.model, known)).square().mean())
    # Less where a picture is still: what lies on a centre is told without an error.
    assert 0 < added < 1.5 * allowed


@pytest.mark.long
def test_lossless_is_exact_and_its_own_size_is_smaller(points: list[rate.BytesPoint]) -> None:
    large, own = [point for point in points if point.codec == "lossless WebP"]
    assert own.bytes_per_frame < large.bytes_per_frame
    # The picture of 8 bits, against the frame before it was rounded to them.
    assert (own.figures["psnr_db"] or 0) > 58
    assert rate.best_within(points, "lossless WebP", own.bytes_per_frame - 1) is None
    best = rate.best_within(points, "JPEG", 3000)
    assert best is not None
    assert best.bytes_per_frame <= 3000


def test_a_ridge_finds_what_is_linear_and_nothing_in_noise() -> None:
    chance = torch.Generator().manual_seed(0)
    features = torch.randn(300, 40, generator=chance) + 3
    part = torch.arange(3).repeat_interleave(100)
    linear = features.double() @ torch.randn(40, generator=chance).double() + 5
    noise = torch.randn(300, generator=chance).double()
    (strength, missed), (_, noisy) = ridge_errors(features, torch.stack([linear, noise], dim=1), part)
    assert missed.square().mean() < 1e-3 * linear.var()
    assert strength in STRENGTHS
    assert noisy.square().mean() > 0.8 * noise[part == 2].var()


@pytest.mark.parametrize("numbers", [8, 50])
def test_the_ridge_is_the_one_of_the_textbook(numbers: int) -> None:
    """Minimise the squares plus strength times total variance times the weights' squares: one system of equations."""
    chance = np.random.default_rng(1)
    features, target = chance.normal(size=(90, numbers)) * np.arange(numbers), chance.normal(size=90)
    part = np.repeat([0, 1, 2], 30)
    ((strength, found),) = ridge_errors(
        torch.from_numpy(features).float(), torch.from_numpy(target)[:, None], torch.from_numpy(part)
    )
    known, wanted = features[:30] - features[:30].mean(axis=0), target[:30] - target[:30].mean()
    penalty = np.sqrt(strength * np.square(known).sum()) * np.eye(numbers)
    weights, *_ = np.linalg.lstsq(np.vstack([known, penalty]), np.append(wanted, np.zeros(numbers)), rcond=None)
    wrong = target[60:] - target[:30].mean() - (features[60:] - features[:30].mean(axis=0)) @ weights
    assert found.numpy() == pytest.approx(wrong, rel=1e-3, abs=1e-4)


@pytest.mark.long
def test_parts_of_the_probe_share_no_episode_and_every_frame_shows_everything() -> None:
    frames = list(labelled_frames("Breakout", 160))
    assert Counter(each.part for each in frames) == {0: 160, 1: 20, 2: 40}
    assert np.isfinite([each.places for each in frames]).all()
    parts_of = {each.episode: {other.part for other in frames if other.episode == each.episode} for each in frames}
    assert all(len(parts) == 1 for parts in parts_of.values())
    with pytest.raises(ConfigError, match="80 or more"):
        next(labelled_frames("Breakout", 10))


@pytest.mark.long
def test_all_of_pca_loses_nothing_that_the_pixels_tell(trained: TrainedModel) -> None:
    """With fewer frames to fit on than components, its space holds them all: distances stay what they were."""
    data = describe(trained, 80)
    fit = data.part == 0
    assert [features.shape for features in data.features.values()] == [
        (110, size) for size in (4495, 2187, data.features["PCA"].shape[1], 4563, 2187)
    ]
    assert data.features["PCA"].shape[1] <= 4495
    frames = as_inputs([each.picture for each in labelled_frames("Breakout", 80)])
    pixels = shrunk(frames, PCA_SIZE).flatten(1)[fit]
    assert torch.allclose(torch.pdist(data.features["PCA"][fit]), torch.pdist(pixels), atol=1e-3)


@pytest.mark.long
def test_representations_are_compared_on_the_same_episodes_and_with_themselves_to_nothing(
    trained: TrainedModel,
) -> None:
    results = probe(trained, 80)
    twins = [replace(each, representation="PCA") for each in results if each.representation == "embedding"]
    kept = [each for each in results if each.representation != "PCA"]
    same, *others = compare([kept + twins])
    assert (same.theirs, same.won, same.places) == ("PCA", 0, 3)
    assert same.difference == (0.0, 0.0, 0.0)
    for other in others:
        assert other.difference.low <= other.difference.mean <= other.difference.high
    by_hand = [[each.r2 for each in results if each.representation == name] for name in ("embedding", "27x27 pixels")]
    against = next(other for other in others if (other.ours, other.theirs) == ("embedding", "27x27 pixels"))
    assert against.difference.mean == pytest.approx(np.mean(by_hand[0]) - np.mean(by_hand[1]))


def test_weights_that_cannot_be_judged_are_refused(trained: TrainedModel, tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    save_weights(trained.model, path)
    with pytest.raises(ConfigError, match="--source"):
        load_trained(path)
    same = load_trained(path, source=SOURCE)
    for name, value in same.model.state_dict().items():
        assert torch.equal(value, trained.model.state_dict()[name])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"mine\.safetensors"):
        load_trained(path, source=SOURCE)
    with pytest.raises(CheckpointError, match="is not there"):
        load_trained(tmp_path / "none.safetensors")
    with pytest.raises(ConfigError, match="held-out"):
        replace(trained, seed=HELD_OUT_SEED)


@pytest.mark.long
def test_the_command_leaves_a_page_and_records(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_weights(trained.model, tmp_path / "Breakout-default-0.safetensors")
    asked = ["evaluate", "autoencoder", str(tmp_path / "Breakout-default-0.safetensors"), "-o", str(tmp_path / "out")]
    assert main([*asked, "--frames", "2", "--probe-frames", "80"]) == 0
    assert "| lossless WebP |" in capsys.readouterr().out
    (report,) = json.loads((tmp_path / "out" / "results.json").read_bytes())["reports"]
    assert {result["place"] for result in report["probe"]} == {"ball x", "ball y", "paddle x"}
    html = (tmp_path / "out" / "index.html").read_text()
    assert "JPEG" in html
    assert "<script" not in html
    for name in ("rate.csv", "probe.csv"):
        assert (tmp_path / "out" / name).read_text().count("\n") > 3
