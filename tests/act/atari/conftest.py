"""Tests of the player run torch on one thread: two threads beside a busy neighbour wait for each other."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
