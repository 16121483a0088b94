"""Weights from files: damaged ones, and numbers that are none, are refused."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import torch

from reelrl.errors import CheckpointError
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.weights import load_weights, save_weights
from tests.campaign.mutations import mutated_bytes

if TYPE_CHECKING:
    from pathlib import Path


def model() -> StreamingAutoEncoder:
    torch.manual_seed(0)
    return StreamingAutoEncoder(AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2))))


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_weights_that_are_not_finite_are_refused_and_none_is_taken(tmp_path: Path, suffix: str) -> None:
    lost = model()
    with torch.no_grad():
        next(iter(lost.parameters())).view(-1)[0] = torch.nan
    path = tmp_path / f"lost.{suffix}"
    if suffix == "pth":
        torch.save(lost.state_dict(), path)
    else:
        save_weights(lost, path)
    ours = model()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(CheckpointError, match="holds numbers that are not finite, in "):
        load_weights(ours, path)
    assert all(torch.equal(before[name], value) for name, value in ours.state_dict().items())


@pytest.mark.slow
def test_a_damaged_pickle_is_refused_or_gives_weights(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pth"
    torch.save(model().state_dict(), whole)
    data = whole.read_bytes()
    refused = 0
    for seed in range(200):
        path = tmp_path / "damaged.pth"
        path.write_bytes(mutated_bytes(data, Random(seed)))
        try:
            load_weights(model(), path)
        except CheckpointError:
            refused += 1
    assert refused > 50
