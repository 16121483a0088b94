"""Tests of the autoencoder run torch on one thread: two threads beside a busy neighbour wait for each other."""

from __future__ import annotations

import pytest
import torch

from tests.encode.fixtures import own_cache

__all__ = ["one_thread", "own_cache"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
