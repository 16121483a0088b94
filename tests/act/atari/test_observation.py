"""What a player sees: the last pictures as a plain loop stacks them, embeddings as the autoencoder makes them."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from reelrl.act.atari.net import PlayerNet
from reelrl.act.atari.observation import EMBEDDINGS, Observer, part_shapes
from reelrl.act.atari.settings import PlayerNetSettings, PlayerSettings
from reelrl.errors import ConfigError

PIXELS = PlayerSettings(size=12, stack=3, normalise=False, net=PlayerNetSettings(pixel_layers=((4, 4, 2),)))
BEGAN = [True, False, False, False, False, True, False]
NOTHING = torch.zeros(0)


def pictures(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (36, 24, 3), dtype=np.uint8) for _ in BEGAN]


def plain_grey(picture: Any, size: int) -> Any:
    """The mean of each block of pixels, in grey."""
    light = picture.astype(np.float64) @ np.array([0.299, 0.587, 0.114]) / 255
    height, width = light.shape[0] // size, light.shape[1] // size
    return light.reshape(size, height, size, width).mean(axis=(1, 3))


def shown(observer: Observer, picture: Any, began: bool, **more: Any) -> dict[str, Tensor]:
    parts: dict[str, Tensor] = observer(
        [torch.from_numpy(picture)[None]], NOTHING, None, torch.tensor([float(began)]), **more
    )
    return parts


def test_pixels_are_the_last_pictures_in_grey_and_an_episode_begins_with_its_first() -> None:
    observer, last = Observer(PIXELS, 0), deque[Any](maxlen=3)
    for picture, began in zip(pictures(), BEGAN, strict=True):
        grey = plain_grey(picture, 12)
        last.extend([grey] * 3 if began else [grey])
        seen = shown(observer, picture, began)["pixels"]
        assert seen.shape == (1, 3, 12, 12)
        assert seen[0].numpy() == pytest.approx(np.stack(last), abs=1e-5)


def test_normalised_is_less_the_mean_in_units_of_the_deviation_of_all_that_was_seen() -> None:
    plain, observer = Observer(PIXELS, 0), Observer(replace(PIXELS, normalise=True), 0)
    seen: list[Any] = []
    for picture, began in zip(pictures(), BEGAN, strict=True):
        seen.append(shown(plain, picture, began)["pixels"].numpy().astype(np.float64))
        found = shown(observer, picture, began)["pixels"].numpy()
        if len(seen) > 1:
            spread = np.sqrt(np.var(seen, axis=0, ddof=1) + 1e-8)
            assert found == pytest.approx((seen[-1] - np.mean(seen, axis=0)) / spread, abs=1e-2)
    before = observer.moments["pixels"].mean.clone()  # type: ignore[operator]
    shown(observer, pictures(9)[0], False, adds=False)
    assert torch.equal(before, observer.moments["pixels"].mean)  # type: ignore[arg-type]


def test_embeddings_are_stacked_beside_the_pixels() -> None:
    settings = replace(PIXELS, observation="both", embedding_stack=2)
    observer = Observer(settings, 0)
    shapes = dict(zip(EMBEDDINGS, ((1, 3, 27, 27), (1, 2, 25, 25), (1, 2, 23, 23)), strict=True))
    first, second = ({name: torch.rand(shape) for name, shape in shapes.items()} for _ in range(2))
    pixels = [torch.zeros(1, 36, 24, 3, dtype=torch.uint8)]
    for began, each in ((1.0, first), (0.0, second)):
        parts = observer(pixels, NOTHING, tuple(each.values()), torch.tensor([began]))
    assert parts.keys() == {"pixels", *EMBEDDINGS}
    for name in EMBEDDINGS:
        assert torch.equal(parts[name], torch.cat([first[name], second[name]], 1))
    assert {name: tuple(part.shape[1:]) for name, part in parts.items()} == part_shapes(settings, 0)


def test_numbers_are_seen_as_they_are() -> None:
    observer = Observer(replace(PIXELS, observation="numbers"), 4)
    numbers = torch.tensor([1.0, -2.0, 3.0, 0.5])
    parts = observer([], numbers.view(1, 4), None, torch.tensor([1.0]))
    assert torch.equal(parts["numbers"], numbers.view(1, 4))


def test_a_net_takes_all_parts_and_its_switches_do_what_they_say() -> None:
    settings = replace(PIXELS, observation="both")
    shapes = part_shapes(settings, 0)
    net = PlayerNet(shapes, settings.net, 5, torch.Generator().manual_seed(0))
    parts = {name: torch.randn(2, *shape) for name, shape in shapes.items()}
    together = net(parts)
    assert together.shape == (2, 5)
    alone = net({name: part[1:] for name, part in parts.items()})
    torch.testing.assert_close(together[1:], alone)
    for weight in (each for name, each in net.named_parameters() if name.endswith("weight")):
        zeros = (weight.flatten(1) == 0).sum(1)
        assert (zeros == int(np.ceil(0.9 * weight[0].numel()))).all()
    bare = PlayerNet(shapes, replace(settings.net, layer_norm=False, sparsity=0.0), 5, torch.Generator().manual_seed(0))
    kinds = [type(each).__name__ for each in bare.modules()]
    assert "LayerNormalization" not in kinds
    assert all((each != 0).all() for name, each in bare.named_parameters() if name.endswith("weight"))


def test_a_kernel_that_does_not_fit_is_told() -> None:
    with pytest.raises(ConfigError, match="a kernel of 8 does not fit into pixels of 4 a side"):
        PlayerNet({"pixels": (4, 4, 4)}, PlayerNetSettings(), 2, torch.Generator())
