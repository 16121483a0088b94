"""Networks that nobody measured: Markov links, mobile links with outages, and recorded ones replayed with changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError
from reelrl.stream.data.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = npt.NDArray[np.float64]

OUTAGE_KBPS = 20.0


def markov_trace(
    rng: np.random.Generator,
    *,
    duration_s: float = 320.0,
    slot_s: float = 1.0,
    states_kbps: Sequence[float] = (200.0, 500.0, 1000.0, 2000.0, 4000.0),
    stay: float = 0.9,
    spread: float = 0.15,
    latency_ms: float = 40.0,
    name: str = "markov",
) -> Trace:
    """A link that hops between neighbouring states, leaving one with probability 1 - `stay` per slot.

    Within a state the rate varies by a normal `spread` (relative), never below 1 % of the state.
    """
    if not 0 <= stay <= 1 or not states_kbps:
        raise ConfigError(
            f"stay = {stay} with {len(states_kbps)} states; stay is 0 to 1 and there is at least one state"
        )
    slots = _slots(duration_s, slot_s)
    hops = np.where(rng.random(slots) < stay, 0, rng.choice([-1, 1], slots))
    state = int(rng.integers(len(states_kbps)))
    rates = np.empty(slots)
    for i in range(slots):
        state = min(max(state + int(hops[i]), 0), len(states_kbps) - 1)
        rates[i] = states_kbps[state]
    rates *= np.maximum(1.0 + spread * rng.standard_normal(slots), 0.01)
    return Trace.from_slots(name, np.full(slots, slot_s * 1000.0), rates, latency_ms)


def mobile_trace(
    rng: np.random.Generator,
    *,
    mean_kbps: float = 1500.0,
    slow_sd: float = 0.45,
    fast_sd: float = 0.35,
    slow_s: float = 30.0,
    fast_s: float = 2.5,
    duration_s: float = 320.0,
    slot_s: float = 1.0,
    latency_ms: float = 40.0,
    name: str = "mobile",
) -> Trace:
    """A moving receiver: the logarithm of the rate wanders slowly (where one is) and quickly (fading)."""
    slots = _slots(duration_s, slot_s)
    logs = _wander(rng, slots, slow_sd, slow_s / slot_s) + _wander(rng, slots, fast_sd, fast_s / slot_s)
    rates = np.exp(logs)
    return Trace.from_slots(name, np.full(slots, slot_s * 1000.0), rates * (mean_kbps / rates.mean()), latency_ms)


def with_outages(
    trace: Trace, rng: np.random.Generator, *, count: int = 1, median_s: float = 12.0, longest_s: float = 45.0
) -> Trace:
    """The trace with stretches of almost no bandwidth, each a log-normal time long, fading out and back in."""
    rates = trace.bytes_per_s.copy()
    middle_s = (trace.edges_s[:-1] + trace.edges_s[1:]) / 2 - trace.edges_s[0]
    for _ in range(count):
        length_s = min(median_s * float(np.exp(0.6 * rng.standard_normal())), longest_s)
        centre_s = float(rng.uniform(0.0, trace.duration_s))
        ramp_s = float(rng.uniform(0.5, 6.0))
        # 0 inside the outage, 1 outside, a straight ramp between.
        open_share = np.clip((np.abs(middle_s - centre_s) - length_s / 2) / ramp_s, 0.0, 1.0)
        floor = OUTAGE_KBPS * 125.0 * float(rng.random()) * rng.random(len(rates))
        rates = np.minimum(rates, np.maximum(rates * open_share, floor))
    if not rates.any():
        return trace
    return Trace(
        f"{trace.name}+outages", trace.edges_s.copy(), rates, trace.latency_ms.copy(), trace.durations_ms.copy()
    )


def replay(
    trace: Trace,
    rng: np.random.Generator,
    *,
    noise: float = 0.1,
    mean_kbps: float | None = None,
    duration_s: float | None = None,
    slot_s: float | None = None,
) -> Trace:
    """A recorded trace from a random moment on, each slot multiplied by a normal factor, optionally scaled to a mean.

    `slot_s` plays every slot at that length instead of the recorded one: a way to make slow recordings lively.
    """
    durations = trace.durations_ms.copy() if slot_s is None else np.full(len(trace), slot_s * 1000.0)
    count = len(trace)
    if duration_s is not None:
        count = max(1, min(count, int(np.ceil(duration_s * 1000.0 / durations.mean()))))
    start = int(rng.integers(len(trace)))
    chosen = (start + np.arange(count)) % len(trace)
    rates = trace.kbps[chosen] * np.maximum(1.0 + noise * rng.standard_normal(count), 0.01)
    if not rates.any():
        return trace
    if mean_kbps is not None:
        rates *= mean_kbps / np.average(rates, weights=durations[chosen])
    return Trace.from_slots(f"{trace.name}+replay", durations[chosen], rates, trace.latency_ms[chosen])


def _wander(rng: np.random.Generator, slots: int, sd: float, slots_to_forget: float) -> Floats:
    """A stationary AR(1) process of standard deviation `sd`."""
    keep = float(np.exp(-1.0 / max(slots_to_forget, 1e-9)))
    shocks = rng.standard_normal(slots) * sd
    values = np.empty(slots)
    values[0] = shocks[0]
    fresh = float(np.sqrt(1.0 - keep * keep))
    for i in range(1, slots):
        values[i] = keep * values[i - 1] + fresh * shocks[i]
    return values


def _slots(duration_s: float, slot_s: float) -> int:
    if not (0 < slot_s <= duration_s and duration_s / slot_s <= 1_000_000):
        raise ConfigError(f"duration_s = {duration_s} in slots of {slot_s} s; give 1 to 1000000 slots")
    return round(duration_s / slot_s)
