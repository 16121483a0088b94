"""Many traces and one video as flat arrays: what the fast executions of the rule run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from reelrl.stream.data.ladders import Video
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.simulator.qoe import Qoe
    from reelrl.stream.simulator.rule import Rule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Links(NamedTuple):
    """Traces laid end to end; trace k owns the slots `first[k]` to `last[k] - 1`.

    Each trace takes one entry more than it has slots, so that its closing edge has a place.
    """

    edges_s: Floats
    bytes_per_s: Floats
    latency_ms: Floats
    first: Ints
    last: Ints


class Episode(NamedTuple):
    """The video, its worth to the viewer and the constants, in the form that kernels read."""

    sizes_bytes: Floats  # (chunks, rungs)
    next_mb: npt.NDArray[np.float32]  # (chunks + 1, rungs): row i is shown while chunk i is next
    utilities: Floats  # (chunks, rungs)
    rate_share: npt.NDArray[np.float32]
    kbps: Floats
    chunk_ms: float
    default_quality: int
    rebuf_penalty: float
    smooth_penalty: float
    keep_junk: bool
    random_start: bool


def pack_links(traces: list[Trace]) -> Links:
    """Lay the traces end to end."""
    last = np.cumsum([len(t) + 1 for t in traces]) - 1
    first = np.concatenate([[0], last[:-1] + 1]).astype(np.int64)
    return Links(
        np.concatenate([t.edges_s for t in traces]),
        np.concatenate([np.append(t.bytes_per_s, 0.0) for t in traces]),
        np.concatenate([np.append(t.latency_ms, 0.0) for t in traces]),
        first,
        last.astype(np.int64),
    )


def pack_episode(video: Video, qoe: Qoe, *, default_quality: int, keep_junk: bool, random_start: bool) -> Episode:
    """The video's numbers; rows and roundings are those of the scalar environment."""
    return Episode(
        np.ascontiguousarray(video.sizes_bytes),
        next_sizes_mb(video, keep_junk),
        np.ascontiguousarray(qoe.utilities(video)),
        (video.bitrates_kbps / video.bitrates_kbps[-1]).astype(np.float32),
        video.bitrates_kbps.copy(),
        video.chunk_s * 1000.0,
        default_quality,
        qoe.stall_penalty,
        qoe.smooth_penalty,
        keep_junk,
        random_start,
    )


def next_sizes_mb(video: Video, keep_junk: bool) -> npt.NDArray[np.float32]:
    """(chunks + 1, rungs): sizes of the chunk that is next; after the last zeros, or in Pensieve's rule chunk 0's."""
    sizes_mb = video.sizes_bytes / 1000.0 / 1000.0
    after_last = sizes_mb[:1] if keep_junk else np.zeros((1, video.rungs))
    return np.concatenate([sizes_mb, after_last]).astype(np.float32)


def has_noise(rule: Rule) -> bool:
    """Whether downloads are drawn or certain."""
    return rule.noise_low != rule.noise_high
