"""Augmentation: nothing asked, nothing changed; otherwise each picture in its own way, by the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reelrl.act.views.augmentation import AugmentationSettings, augmented
from reelrl.errors import ConfigError

NONE = AugmentationSettings(crop=0, shift=0, brightness=0, tint=0)


def pictures(count: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 12, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_nothing_asked_nothing_changed() -> None:
    assert torch.equal(augmented(pictures(), np.random.default_rng(0), NONE), pictures().float())


def test_each_picture_is_changed_in_its_own_way_by_the_seed() -> None:
    same = pictures(1).expand(4, -1, -1, -1)
    one, again, other = (augmented(same, np.random.default_rng(seed), AugmentationSettings()) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert len({tuple(each.flatten().tolist()) for each in one}) == 4
    assert one.min() >= 0
    assert one.max() <= 255


def test_a_shift_moves_what_is_seen() -> None:
    """A bright column wanders, and no colour is invented."""
    picture = torch.zeros(64, 3, 12, 16)
    picture[..., 8] = 200
    moved = augmented(picture, np.random.default_rng(0), AugmentationSettings(crop=0, shift=0.2, brightness=0, tint=0))
    centres = (moved[:, 0, 6] * torch.arange(16)).sum(1) / moved[:, 0, 6].sum(1)
    assert centres.min() < 6
    assert centres.max() > 10
    assert (centres - 8).abs().max() <= 0.2 * 16 + 0.6


@pytest.mark.parametrize("name", ["crop", "shift", "brightness", "tint"])
def test_a_share_that_is_none_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 1.5"):
        AugmentationSettings(**{name: 1.5})
