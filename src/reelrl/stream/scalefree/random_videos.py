"""Videos that nobody made: ladders of 2 to 12 rungs with segment sizes that vary, to learn on.

Rates, number of rungs, chunk length, how much sizes vary and what a rung is worth are drawn; a share of them is
Pensieve's ladder, which the field reports on, and a share is worth what its rates are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reelrl.stream.data.ladders import PENSIEVE_CHUNK_S, PENSIEVE_KBPS, Video
from reelrl.stream.scalefree.sizes import AHEAD
from reelrl.stream.simulator.observation import DEFAULT_QUALITY

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_RUNGS = 12
FEWEST_CHUNKS, MOST_CHUNKS = 12, 128
CHUNKS_S = (1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 6.0, 8.0, 10.0)


class Videos(NamedTuple):
    """Videos of different ladders side by side, padded to the longest ladder and video."""

    sizes_mbit: Tensor  # (videos, chunks, rungs)
    relative: Tensor  # (videos, chunks + AHEAD): size of a chunk relative to its nominal size; 1 after the end
    utilities: Tensor  # (videos, rungs); the best is worth 1
    rates_mbps: Tensor  # (videos, rungs)
    present: Tensor  # (videos, rungs)
    chunk_s: Tensor  # (videos,)
    chunks: Tensor  # (videos,)
    top_mbps: Tensor  # (videos,)
    first_rung: Tensor  # (videos,), that of the first chunk, which nobody chooses


def videos_on(device: torch.device | str, videos: list[Video], worth: list[npt.NDArray[np.float64]]) -> Videos:
    """Tables for these videos; `worth[i]` is what each rung of video i is worth, the best 1."""
    count, rungs, chunks = len(videos), max(v.rungs for v in videos), max(v.chunks for v in videos)
    sizes = np.ones((count, chunks, rungs), dtype=np.float32)
    relative = np.ones((count, chunks + AHEAD), dtype=np.float32)
    rates = np.ones((count, rungs), dtype=np.float32)
    utilities = np.zeros((count, rungs), dtype=np.float32)
    present = np.zeros((count, rungs), dtype=bool)
    for i, video in enumerate(videos):
        sizes[i, : video.chunks, : video.rungs] = video.sizes_bytes * 8e-6
        relative[i, : video.chunks] = video.relative_sizes()
        rates[i, : video.rungs] = video.bitrates_kbps / 1000.0
        # What pads a short ladder is like its lowest rung, so that no feature of it is out of bounds.
        rates[i, video.rungs :] = rates[i, 0]
        utilities[i, : video.rungs] = worth[i]
        present[i, : video.rungs] = True
    tables = (sizes, relative, utilities, rates, present)
    columns = (
        np.array([video.chunk_s for video in videos], dtype=np.float32),
        np.array([video.chunks for video in videos]),
        np.array([video.bitrates_kbps[-1] / 1000.0 for video in videos], dtype=np.float32),
        np.array([min(DEFAULT_QUALITY, video.rungs - 1) for video in videos]),
    )
    return Videos(*(torch.as_tensor(table, device=device) for table in (*tables, *columns)))


def random_videos(
    rng: np.random.Generator, count: int, pensieve_share: float = 0.35, linear_share: float = 0.7
) -> tuple[list[Video], list[npt.NDArray[np.float64]]]:
    """Videos to learn on, and what their rungs are worth."""
    videos, worth = [], []
    for _ in range(count):
        pensieve = rng.random() < pensieve_share
        rates = np.array(PENSIEVE_KBPS) if pensieve else _rates(rng)
        chunk_s = PENSIEVE_CHUNK_S if pensieve else float(rng.choice(CHUNKS_S))
        chunks = 48 if pensieve else int(FEWEST_CHUNKS * ((MOST_CHUNKS + 1) / FEWEST_CHUNKS) ** rng.random())
        spread = float(np.exp(rng.uniform(np.log(0.03), np.log(0.12 if pensieve else 0.4))))
        videos.append(Video(rates, chunk_s, rates * chunk_s * 125.0 * _variation(rng, chunks, len(rates), spread)))
        worth.append(_worth(rng, rates, linear_share))
    return videos, worth


def _rates(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    rungs = int(rng.integers(2, MOST_RUNGS + 1))
    lowest = np.exp(rng.uniform(np.log(80.0), np.log(1500.0)))
    steps = np.exp(rng.uniform(np.log(1.2), np.log(2.4), rungs - 1))
    rates: npt.NDArray[np.float64] = lowest * np.concatenate([[1.0], np.cumprod(steps)])
    return rates[rates <= 100_000.0] if rates[1] <= 100_000.0 else rates[:2]


def _variation(rng: np.random.Generator, chunks: int, rungs: int, spread: float) -> npt.NDArray[np.float64]:
    """Factors on the nominal sizes: scenes that all rungs feel, and a little of each rung's own; about 1 on average."""
    scene = np.empty(chunks)
    value = rng.standard_normal()
    for i, shock in enumerate(rng.standard_normal(chunks)):
        value = 0.6 * value + 0.8 * shock
        scene[i] = value
    factors = np.exp(spread * scene[:, None] + 0.2 * spread * rng.standard_normal((chunks, rungs)))
    bounded: npt.NDArray[np.float64] = np.clip(factors / factors.mean(axis=0), 0.15, 4.0)
    return bounded


def _worth(rng: np.random.Generator, rates: npt.NDArray[np.float64], linear_share: float) -> npt.NDArray[np.float64]:
    """Mostly proportional to the rate; else a power of it below 1, or its logarithm over the lowest."""
    share: npt.NDArray[np.float64] = rates / rates[-1]
    kind = rng.random()
    if kind < linear_share:
        return share
    if kind < (1.0 + linear_share) / 2.0:
        curved: npt.NDArray[np.float64] = share ** rng.uniform(0.3, 1.0)
        return curved
    logarithm: npt.NDArray[np.float64] = np.log(rates / rates[0]) / np.log(rates[-1] / rates[0])
    return logarithm
