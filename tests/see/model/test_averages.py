"""Averages tell where a small thing is: their sum and their centre of mass are linear in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import conv2d

from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.model.averages import Shrink, averaging_rows
from reelrl.see.settings import KERNELS, AutoEncoderSettings, LossSettings

PLACES = AutoEncoderSettings(bounded=True, averages=True, loss=LossSettings(small=5.0))


@pytest.mark.parametrize(("kernel", "size"), [*zip(KERNELS, (27, 25, 23), strict=True)])
def test_averages_are_three_smooth_convolutions_on_the_branchs_grid(kernel: int, size: int) -> None:
    frames = torch.rand(2, 3, 224, 224)
    taps = torch.tensor([1.0])
    for _ in range(kernel - 1):  # Pascal's triangle
        taps = torch.cat([taps, torch.zeros(1)]) / 2 + torch.cat([torch.zeros(1), taps]) / 2
    slow = frames
    for _ in range(3):
        slow = conv2d(slow, torch.outer(taps, taps).expand(3, 1, -1, -1).contiguous(), stride=2, groups=3)
    fast = Shrink(kernel)(frames)
    assert fast.shape == (2, 3, size, size)
    assert torch.allclose(fast, slow, atol=1e-6)


@given(kernel=st.sampled_from(KERNELS), place=st.integers(50, 170), brightness=st.floats(0.1, 1.0))
def test_the_centre_of_mass_of_averages_is_the_place(kernel: int, place: int, brightness: float) -> None:
    averages = averaging_rows(kernel)[:, place] * brightness
    centres = 8.0 * torch.arange(len(averages)) + 7 * (kernel - 1) / 2
    assert float(averages.sum()) == pytest.approx(brightness / 8, rel=1e-5)
    assert float((averages * centres).sum() / averages.sum()) == pytest.approx(place, abs=1e-3)


@pytest.mark.slow
@pytest.mark.long
def test_a_small_picture_can_be_read_from_the_finest_embedding_by_one_layer() -> None:
    """Two like learners, one of whom is asked for it; a reader is fitted to each afterwards, in the same way."""

    def frame(step: int) -> torch.Tensor:
        chance = torch.Generator().manual_seed(step)
        picture = torch.full((3, 224, 224), 60, dtype=torch.uint8)
        left, top = torch.randint(20, 190, (2,), generator=chance).tolist()
        picture[:, top : top + 12, left : left + 12] = 230
        return picture

    left_over = []
    for settings in (replace(PLACES, loss=LossSettings()), PLACES):
        model = StreamingAutoEncoder(settings)
        for step in range(60):
            model.learn(frame(step))
        with torch.no_grad():
            shown = torch.stack([frame(step) for step in range(60, 90)]).float() / 255
            codes = model.encode(shown)[0].movedim(1, -1).flatten(0, -2)
            wanted = Shrink(3)(shown - model.background.mean).movedim(1, -1).flatten(0, -2)
        known = torch.cat([codes, torch.ones(len(codes), 1)], 1).double()
        answer = torch.linalg.lstsq(known, wanted.double()).solution
        left_over.append(float((known @ answer - wanted).square().mean() / wanted.var()))
    assert left_over[1] < 0.7 * left_over[0], left_over
    assert left_over[1] < 0.2, left_over


def test_without_averages_and_reader_nothing_is_added() -> None:
    names = StreamingAutoEncoder(AutoEncoderSettings()).state_dict().keys()
    more = StreamingAutoEncoder(PLACES).state_dict().keys()
    assert sorted(more - names) == [
        *(f"encoder.averages.{branch}.mix.weight" for branch in range(3)),
        "reader.bias",
        "reader.weight",
    ]
    assert not names - more
