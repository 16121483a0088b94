"""The loss, and the change mask that steers it."""

from __future__ import annotations

import pytest
import torch

from reelrl.errors import ConfigError
from reelrl.see.model.loss import PixelChangeDetector, box_ssim, compute_frame_difference, reconstruction_loss
from reelrl.see.settings import LossSettings


def pictures(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return torch.rand(1, 3, 64, 64, generator=chance), torch.rand(1, 3, 64, 64, generator=chance)


def test_a_perfect_picture_has_no_loss() -> None:
    picture, _ = pictures()
    losses = reconstruction_loss(picture, picture, None, LossSettings())
    assert float(losses.total) == pytest.approx(0.0, abs=1e-5)
    assert float(losses.ssim) == pytest.approx(1.0, abs=1e-5)


def test_the_total_is_the_sum_of_its_weighted_parts() -> None:
    losses = reconstruction_loss(*pictures(), None, LossSettings(mse=2.0, l1=0.5, ssim=0.1))
    expected = 2.0 * losses.mse + 0.5 * losses.l1 + 0.1 * (1 - losses.ssim)
    assert float(losses.total) == pytest.approx(float(expected), rel=1e-5)


def test_weights_change_what_is_learned_but_not_what_is_reported() -> None:
    picture, frame = pictures()
    weight = torch.ones(1, 1, 64, 64)
    weight[..., :32] = 5.0
    plain, weighted = (reconstruction_loss(picture, frame, w, LossSettings(ssim=0.0)) for w in (None, weight))
    assert float(weighted.total) > 2 * float(plain.total)
    assert float(weighted.mse) == float(plain.mse)


def test_ssim_falls_when_structure_goes_though_the_mean_stays() -> None:
    picture, _ = pictures()
    flat = picture.mean(dim=(2, 3), keepdim=True).expand_as(picture)
    assert float(box_ssim(picture, flat)) < 0.1
    assert float(box_ssim(picture, 0.9 * picture)) > 0.9


def test_a_loss_without_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to learn"):
        LossSettings(mse=0.0, l1=0.0, ssim=0.0)


def test_nothing_has_changed_on_the_first_frame() -> None:
    detector = PixelChangeDetector(16)
    assert float(detector(torch.rand(1, 3, 16, 16)).sum()) == 0


def test_the_mask_is_where_the_pixels_changed() -> None:
    detector = PixelChangeDetector(16)
    frame = torch.zeros(1, 3, 16, 16)
    detector(frame)
    moved = frame.clone()
    moved[0, 1, 2:4, 5:9] = 0.5
    mask = detector(moved)
    assert torch.equal(mask, (compute_frame_difference(moved, frame) > 0).float())
    assert float(mask.sum()) == 8


def test_the_threshold_rises_with_noise_and_not_with_motion() -> None:
    chance = torch.Generator().manual_seed(0)
    noisy, moving = PixelChangeDetector(32), PixelChangeDetector(32)
    for i in range(600):
        noisy((0.5 + 0.1 * torch.randn(1, 3, 32, 32, generator=chance)).clamp(0, 1))
        sprite = torch.zeros(1, 3, 32, 32)
        sprite[..., i % 28 : i % 28 + 3] = 1.0
        moving(sprite)
    assert float(noisy.threshold) > 0.05
    assert float(moving.threshold) == pytest.approx(0.02, abs=1e-4)
    still = (0.5 + 0.1 * torch.randn(1, 3, 32, 32, generator=chance)).clamp(0, 1)
    assert float(noisy(still).mean()) < 0.9
