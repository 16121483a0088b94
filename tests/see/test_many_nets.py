"""Learners that are computed at once learn what each would learn alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from reelrl.see.execution import shares_of
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.many_nets import ManyNets, can_be_one
from reelrl.see.model import batched
from reelrl.see.result import FIGURES
from reelrl.see.settings import AutoEncoderSettings, LossSettings, OptimiserSettings
from reelrl.see.update import Update

if TYPE_CHECKING:
    from torch import Tensor

SMALL = AutoEncoderSettings(widths=((3, 4), (3, 4), (2, 3)))
PLACES = replace(SMALL, bounded=True, averages=True, layer_norm=True, loss=LossSettings(small=5.0))
LEARNERS = 3
NO_CUT = [torch.zeros(())] * LEARNERS


def seeds_of(settings: AutoEncoderSettings) -> list[AutoEncoderSettings]:
    return [replace(settings, seed=seed) for seed in range(LEARNERS)]


def frames(count: int) -> list[list[Tensor]]:
    """Pictures of two sizes, one for each learner."""
    chance = torch.Generator().manual_seed(0)
    sizes = ((210, 160), (250, 160), (250, 160))
    return [
        [torch.randint(0, 256, (3, *size), dtype=torch.uint8, generator=chance) for size in sizes] for _ in range(count)
    ]


@pytest.mark.parametrize("way", [batched.convolve_by_products, batched.convolve_by_groups])
@pytest.mark.parametrize(("kernel", "side"), [(3, 55), (5, 53), (7, 52), (5, 20), (4, 21)])
def test_a_convolution_of_all_is_that_of_each_there_and_back(way: batched.Way, kernel: int, side: int) -> None:
    x, weight, bias = _drawn((2, 3, side, side), (2, 4, 3, kernel, kernel), (2, 4))
    each = torch.stack([functional.conv2d(a[None], w, b, 2)[0] for a, w, b in zip(x, weight, bias, strict=True)])
    _same(way(x, weight, bias), each, (x, weight, bias))


@pytest.mark.parametrize("way", [batched.spread_by_products, batched.spread_by_groups])
@pytest.mark.parametrize(("kernel", "side", "padding"), [(3, 27, 0), (3, 11, 1), (5, 25, 0), (7, 23, 1), (4, 9, 0)])
def test_so_is_a_transposed_one(way: batched.Way, kernel: int, side: int, padding: int) -> None:
    x, weight, bias = _drawn((2, 3, side, side), (2, 3, 4, kernel, kernel), (2, 4))
    each = torch.stack(
        [
            functional.conv_transpose2d(a[None], w, b, 2, output_padding=padding)[0]
            for a, w, b in zip(x, weight, bias, strict=True)
        ]
    )
    _same(way(x, weight, bias, padding), each, (x, weight, bias))


def _drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    chance = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=chance, dtype=torch.float64).requires_grad_() for shape in shapes]


def _same(ours: Tensor, theirs: Tensor, given: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(ours, theirs)
    down = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view_as(ours)
    torch.testing.assert_close(torch.autograd.grad(ours, given, down), torch.autograd.grad(theirs, given, down))


@pytest.mark.parametrize(
    "settings",
    [
        replace(SMALL, optimiser=OptimiserSettings(name="sgd")),
        pytest.param(
            replace(PLACES, optimiser=OptimiserSettings(name="adamw", weight_decay=0.1)), marks=pytest.mark.long
        ),
    ],
)
def test_each_of_many_learns_what_it_would_learn_alone(settings: AutoEncoderSettings) -> None:
    alone, together = ([StreamingAutoEncoder(each) for each in seeds_of(settings)] for _ in range(2))
    update = Update(ManyNets(together))
    for shown in frames(4):
        results = update(shown, NO_CUT)
        for learner, frame, result in zip(alone, shown, results, strict=True):
            expected = learner.learn(frame)
            for name in (*FIGURES, "reconstruction", "change_mask"):
                torch.testing.assert_close(getattr(result, name), getattr(expected, name), rtol=2e-3, atol=1e-4)
            torch.testing.assert_close(result.embeddings, expected.embeddings, rtol=2e-3, atol=1e-3)


def test_what_one_of_many_saves_goes_on_alone_and_back() -> None:
    settings = replace(PLACES, optimiser=OptimiserSettings(name="adam"))
    many = [StreamingAutoEncoder(each) for each in seeds_of(settings)]
    update, shown = Update(ManyNets(many)), frames(4)
    for each in shown[:2]:
        update(each, NO_CUT)
    saved = [learner.training_state() for learner in many]
    alone = StreamingAutoEncoder(replace(settings, seed=1))
    alone.load_training_state(saved[1])
    expected = [float(alone.learn(each[1]).loss) for each in shown[2:]]
    assert [float(update(each, NO_CUT)[1].loss) for each in shown[2:]] == pytest.approx(expected, rel=1e-3)
    for learner, state in zip(many, saved, strict=True):
        learner.rewind(state)
    assert [float(update(each, NO_CUT)[1].loss) for each in shown[2:]] == pytest.approx(expected, rel=1e-3)


def test_only_learners_that_are_alike_are_computed_at_once() -> None:
    assert can_be_one(seeds_of(SMALL))
    assert not can_be_one([SMALL, PLACES])
    for other in (
        replace(SMALL, transformer=True),
        replace(SMALL, residual=True),
        replace(SMALL, optimiser=OptimiserSettings(name="obgd")),
    ):
        assert not can_be_one(seeds_of(other))


def test_learners_keep_their_order_whoever_they_are_computed_with() -> None:
    obgd = replace(SMALL, optimiser=OptimiserSettings(name="obgd"))
    learners = [StreamingAutoEncoder(each) for each in (SMALL, PLACES, obgd, replace(SMALL, seed=1), PLACES, obgd)]
    shares = shares_of(learners, compiled=False, graph=False)
    assert [share.places for share in shares] == [[0], [1], [2], [3], [4], [5]]  # on a CPU each by itself
