"""What a set of traces is like, in a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace

OUTAGE_BELOW_KBPS = 100.0
OUTAGE_AT_LEAST_S = 10.0
_MOST_SECONDS = 2_000_000


@dataclass(frozen=True)
class TraceStats:
    """One trace. `lag1` is the correlation of a second with the next; outages last 10 s or more below 100 kbit/s."""

    name: str
    slots: int
    duration_s: float
    mean_kbps: float
    deviation: float  # relative to the mean
    p5_kbps: float
    p95_kbps: float
    lag1: float
    outages: int
    longest_outage_s: float
    latency_ms: float


def describe(trace: Trace) -> TraceStats:
    """The numbers of one trace, weighted by time."""
    weights = trace.durations_ms
    mean = float(np.average(trace.kbps, weights=weights))
    spread = float(np.sqrt(np.average((trace.kbps - mean) ** 2, weights=weights)))
    order = np.argsort(trace.kbps)
    below = np.cumsum(weights[order]) / weights.sum()
    p5, p95 = (float(np.interp(share, below, trace.kbps[order])) for share in (0.05, 0.95))
    outages = outage_lengths_s(trace)
    return TraceStats(
        name=trace.name,
        slots=len(trace),
        duration_s=trace.duration_s,
        mean_kbps=mean,
        deviation=spread / mean,
        p5_kbps=p5,
        p95_kbps=p95,
        lag1=_lag1(trace),
        outages=len(outages),
        longest_outage_s=max(outages, default=0.0),
        latency_ms=float(np.average(trace.latency_ms, weights=weights)),
    )


def outage_lengths_s(trace: Trace) -> list[float]:
    """How long each stretch below 100 kbit/s lasted, those of 10 s and more."""
    low = trace.kbps < OUTAGE_BELOW_KBPS
    edges = np.flatnonzero(np.diff(np.concatenate([[0], low.astype(int), [0]])))
    lengths = [float(trace.durations_ms[a:b].sum()) / 1000.0 for a, b in edges.reshape(-1, 2)]
    return [length for length in lengths if length >= OUTAGE_AT_LEAST_S]


def _lag1(trace: Trace) -> float:
    # A slot may last for years; what is beyond the first weeks would only cost memory.
    seconds = trace.edges_s[0] + np.arange(min(math.ceil(trace.duration_s), _MOST_SECONDS))
    rates = trace.kbps[np.clip(np.searchsorted(trace.edges_s, seconds, side="right") - 1, 0, len(trace) - 1)]
    if len(rates) < 3 or rates[:-1].std() == 0 or rates[1:].std() == 0:
        return 0.0
    return float(np.corrcoef(rates[:-1], rates[1:])[0, 1])
