"""Many learners in one pass learn what each would learn alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reelrl.errors import ConfigError
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.many_learners import ManyLearners
from reelrl.see.result import FIGURES
from reelrl.see.settings import AutoEncoderSettings, OptimiserSettings

SMALL = AutoEncoderSettings(widths=((4, 8), (4, 8), (4, 8)))
MIXED = [
    SMALL,
    replace(SMALL, seed=1),
    replace(SMALL, optimiser=OptimiserSettings(name="obgd")),
    replace(SMALL, widths=((8, 8), (4, 4), (4, 4)), optimiser=OptimiserSettings(name="intentional")),
]


def test_each_learns_what_it_would_learn_alone() -> None:
    chance = torch.Generator().manual_seed(0)
    together, alone = ManyLearners(MIXED), [StreamingAutoEncoder(each) for each in MIXED]
    for i in range(4):
        frames = torch.rand(len(MIXED), 3, 224, 224, generator=chance)
        resets = [i == 0, False, i == 2, False]
        figures = together.learn(frames, resets)
        for row, learner, frame, reset in zip(figures, alone, frames, resets, strict=True):
            result = learner.learn(frame, reset)
            expected = torch.stack([getattr(result, name) for name in FIGURES])
            assert torch.allclose(row, expected, rtol=1e-5, atol=1e-7)


def test_each_learner_needs_a_frame() -> None:
    with pytest.raises(ConfigError, match=r"\(4, 3, 224, 224\)"):
        ManyLearners(MIXED).learn(torch.zeros(3, 3, 224, 224))


def test_nobody_to_learn_and_nobody_agreeing_on_how_are_refused() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        ManyLearners([])
    with pytest.raises(ConfigError, match="auto, eager"):
        ManyLearners([SMALL, replace(SMALL, step="eager")])
