"""The streaming autoencoder: shapes, prequential scores, a change mask that steers, exact continuation, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reelrl.errors import CheckpointError, ConfigError
from reelrl.see import (
    AutoEncoderSettings,
    LayerNormalization,
    ResidualBlock,
    StreamingAutoEncoder,
    TransformerBlock,
    create_streaming_ae,
    postprocess_output,
    preprocess_frame,
)
from reelrl.see.model.layers import sparse_init_
from reelrl.see.settings import LossSettings, OptimiserSettings

SMALL = AutoEncoderSettings(widths=((4, 8), (4, 8), (4, 8)))


def game_frame(i: int) -> Tensor:
    """A white square that moves over a grey field."""
    frame = torch.full((3, 210, 160), 60, dtype=torch.uint8)
    left = (7 * i) % 140
    frame[:, 100:112, left : left + 12] = 230
    return frame


@pytest.mark.parametrize("options", [{}, {"layer_norm": True, "residual": True, "transformer": True}])
def test_embeddings_have_the_promised_shapes_and_pictures_the_frames_size(options: dict[str, bool]) -> None:
    model = StreamingAutoEncoder(replace(SMALL, **options))  # type: ignore[arg-type]
    embeddings = model.encode(torch.rand(2, 3, 224, 224))
    assert [tuple(each.shape) for each in embeddings] == [(2, 3, 27, 27), (2, 2, 25, 25), (2, 2, 23, 23)]
    assert model.decode(embeddings).shape == (2, 3, 224, 224)


def test_bounded_embeddings_stay_within_one_whatever_the_frame() -> None:
    models = [StreamingAutoEncoder(replace(SMALL, bounded=bounded)) for bounded in (False, True)]
    strange = 1e3 * torch.rand(1, 3, 224, 224)
    free, bounded = ([float(each.detach().abs().max()) for each in model.encode(strange)] for model in models)
    assert min(free) > 1
    assert max(bounded) < 1
    assert sum(p.numel() for p in models[0].parameters()) == sum(p.numel() for p in models[1].parameters())


def test_latent_channels_widen_the_fine_embedding_only() -> None:
    embeddings = StreamingAutoEncoder(replace(SMALL, latent_channels=5)).encode(torch.rand(1, 3, 224, 224))
    assert [each.shape[1] for each in embeddings] == [5, 2, 2]


def test_a_frame_is_scored_before_it_is_learned_from() -> None:
    model = StreamingAutoEncoder(SMALL)
    model.learn(game_frame(0))
    with torch.no_grad():
        frame = preprocess_frame(game_frame(1))
        expected = (model(frame) - frame).square().mean()
    assert float(model.learn(game_frame(1)).mse) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.long
@pytest.mark.slow
def test_it_learns_what_the_background_cannot_know() -> None:
    model = StreamingAutoEncoder(replace(SMALL, optimiser=OptimiserSettings(name="adam", lr=3e-3)))
    scores = [float(model.learn(game_frame(i)).foreground_mse) for i in range(150)]
    assert np.mean(scores[-10:]) < 0.6 * np.mean(scores[5:25])


def test_the_change_mask_steers_what_is_learned() -> None:
    weights = []
    for change in (0.0, 20.0):
        model = StreamingAutoEncoder(replace(SMALL, loss=LossSettings(change=change, foreground=0.0)))
        for i in range(4):
            model.learn(game_frame(i))
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach())
    assert not torch.equal(weights[0], weights[1])


def test_same_seed_same_weights_other_seed_others() -> None:
    first, again, other = (StreamingAutoEncoder(replace(SMALL, seed=seed)) for seed in (3, 3, 4))
    ours = first.encoder.branches[0][0].weight  # type: ignore[index]
    assert torch.equal(ours, again.encoder.branches[0][0].weight)  # type: ignore[index]
    assert not torch.equal(ours, other.encoder.branches[0][0].weight)  # type: ignore[index]


@pytest.mark.parametrize("name", ["adam", "obgd", "intentional", "sgd"])
def test_a_restored_model_goes_on_bit_for_bit(name: str) -> None:
    chosen = replace(SMALL, optimiser=OptimiserSettings(name=name))  # type: ignore[arg-type]
    model = StreamingAutoEncoder(chosen)
    for i in range(3):
        model.learn(game_frame(i), reset=i == 0)
    restored = StreamingAutoEncoder(replace(chosen, seed=9))
    restored.load_training_state(model.training_state())
    for i in range(3, 6):
        ours, theirs = model.learn(game_frame(i)), restored.learn(game_frame(i))
        assert torch.equal(ours.loss, theirs.loss)
        assert torch.equal(ours.reconstruction, theirs.reconstruction)
    assert restored.frames_seen == 6


def test_a_state_of_another_architecture_is_refused() -> None:
    state = StreamingAutoEncoder(SMALL).training_state()
    with pytest.raises(CheckpointError, match="settings it was saved with"):
        StreamingAutoEncoder(replace(SMALL, residual=True)).load_training_state(state)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (torch.zeros(210, 160), "RGB"),
        (torch.zeros(4, 210, 160), "RGB"),
        (torch.zeros(2, 3, 210, 160), "RGB"),
        (torch.zeros(3, 0, 160), "no pixels"),
        (torch.zeros(3, 210, 160, dtype=torch.int64), "int64"),
        (torch.full((3, 210, 160), torch.nan), "finite"),
        (torch.full((3, 210, 160), 255.0), "to 255"),
    ],
)
def test_what_cannot_be_a_frame_is_refused_and_nothing_is_learned(frame: Tensor, message: str) -> None:
    model = StreamingAutoEncoder(SMALL)
    before = model.training_state()
    with pytest.raises(ConfigError, match=message):
        model.learn(frame)
    after = model.training_state()
    assert all(torch.equal(torch.as_tensor(before[name]), torch.as_tensor(after[name])) for name in before)


def test_the_classic_factory_and_its_results() -> None:
    model = create_streaming_ae(latent_channels=3, lr=1.0, use_tensorboard=False)
    assert model.settings.optimiser.name == "obgd"
    picture = np.random.default_rng(0).integers(0, 256, (210, 160, 3), dtype=np.uint8)
    results = model.update_params(picture, debug=True)
    assert {"loss", "mse", "l1", "ssim", "reconstruction", "embeddings", "change_mask", "fps", "step_time"} <= set(
        results
    )
    assert postprocess_output(results["reconstruction"]).shape == (224, 224, 3)


def test_pictures_survive_the_way_in_and_out() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    assert np.array_equal(postprocess_output(preprocess_frame(picture)), picture)


def test_half_of_each_units_weights_start_at_zero() -> None:
    layer = nn.Conv2d(4, 6, 3)
    sparse_init_(layer, 0.5, torch.Generator().manual_seed(0))
    assert ((layer.weight == 0).flatten(1).sum(dim=1) == 18).all()
    assert layer.bias is not None
    assert not layer.bias.any()


def test_blocks_start_as_the_identity_and_the_norm_is_per_sample() -> None:
    x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(0))
    for block in (ResidualBlock(8), TransformerBlock(8)):
        sparse_init_(block, 0.5, torch.Generator().manual_seed(0))
        assert torch.allclose(block(x), x, atol=1e-6)
    scaled = LayerNormalization()(torch.stack([x[0], 10 * x[0] + 3]))
    assert torch.allclose(scaled[0], scaled[1], atol=1e-4)
