"""Traces and ladders for the tests: small generated ones, and the real ones where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data.ladders import Ladder, nominal_ladder
from reelrl.stream.data.traces import Trace


def data(part: str) -> Path:
    """A part of the development data; the test is skipped where there is none."""
    root = os.environ.get("REELRL_DATA")
    if not root or not (Path(root) / part).exists():
        pytest.skip(f"REELRL_DATA has no {part}")
    return Path(root) / part


def links(count: int = 6, seed: int = 0) -> list[Trace]:
    """Generated traces, some with outages, one with slots of nothing at all."""
    rng = np.random.default_rng(seed)
    made = [
        generate.mobile_trace(rng, mean_kbps=float(rng.uniform(300, 6000)), duration_s=120) for _ in range(count - 2)
    ]
    made.append(generate.with_outages(generate.markov_trace(rng, duration_s=100), rng, count=3))
    made.append(Trace.from_slots("gaps", [700, 1300, 400, 2600], [0, 3000, 0, 900], [5, 80, 20, 0]))
    return made


def bumpy_ladder(chunks: int = 12, seed: int = 1) -> Ladder:
    """A short video whose segments vary around their nominal size."""
    nominal = nominal_ladder(chunks=chunks)
    sizes = nominal.video().sizes_bytes * np.random.default_rng(seed).uniform(0.8, 1.2, (chunks, 1))
    return Ladder("bumpy", nominal.bitrates_kbps, 4.0, np.round(sizes))
