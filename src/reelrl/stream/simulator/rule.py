"""The network rule: what happens between the request for a chunk and the next decision.

Pure functions of numbers; every execution of the simulator (scalar, compiled, torch) is held equal to these.

    request ──► round trip ──► bytes arrive slot by slot ──► buffer plays meanwhile ──► sleep if it is full

They are written in the subset of Python that numba compiles, on flat arrays that may hold many traces: a trace
occupies the slots `first` to `last - 1`, slot i lasts from `edges_s[i]` to `edges_s[i + 1]`, and after `last - 1` comes
`first` again. Interpreted, they take lists: Python reads a number from a list several times faster than from an array.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reelrl.errors import ConfigError

Floats = npt.NDArray[np.float64] | list[float]


class Rule(NamedTuple):
    """The constants of the link and the player."""

    rtt_ms: float = 0.0  # added to every request, on top of the slot's own latency
    slot_latency: bool = True  # honour the trace's latency_ms
    payload: float = 0.95  # share of the link that carries video; the rest is headers
    buffer_cap_ms: float = 60_000.0
    drain_ms: float = 500.0  # a full player sleeps in steps of this
    round_trip_on_clock: bool = True  # False: the trace stands still during the round trip (and under noise)
    full_sleep: bool = True  # False: report only the part of the sleep that fell in the last slot
    wrap_to_zero: bool = False  # True: a new pass starts at time 0, even if the trace's first time is later
    noise_low: float = 1.0
    noise_high: float = 1.0


DEFAULT = Rule()
PENSIEVE = Rule(
    rtt_ms=80.0,
    slot_latency=False,
    round_trip_on_clock=False,
    full_sleep=False,
    wrap_to_zero=True,
    noise_low=0.9,
    noise_high=1.1,
)
PRESETS = {"default": DEFAULT, "pensieve": PENSIEVE}


def named_rule(
    preset: str | None, *, noise: bool | None = None, queue_delay_ms: float = 0.0, buffer_s: float | None = None
) -> Rule:
    """The rule of a preset. Pensieve's has noise unless told otherwise; asked of the default, noise is Pensieve's too.

    `buffer_s` is how far ahead a player downloads: a minute unless given, a few seconds for live.
    """
    rule = PRESETS.get(preset or "default")
    if rule is None:
        raise ConfigError(f"preset = {preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    if not (math.isfinite(queue_delay_ms) and queue_delay_ms >= 0):
        raise ConfigError(f"queue_delay_ms = {queue_delay_ms}; it must be finite and 0 or more")
    if buffer_s is not None:
        if not (math.isfinite(buffer_s) and buffer_s > 0):
            raise ConfigError(f"buffer_s = {buffer_s}; it must be finite and above 0")
        rule = rule._replace(buffer_cap_ms=1000.0 * buffer_s)
    if noise is False:
        rule = rule._replace(noise_low=1.0, noise_high=1.0)
    elif noise:
        rule = rule._replace(noise_low=PENSIEVE.noise_low, noise_high=PENSIEVE.noise_high)
    return rule._replace(rtt_ms=rule.rtt_ms + queue_delay_ms)


class Arrival(NamedTuple):
    """A chunk has arrived: where the link's clock stands, and what the viewer saw meanwhile."""

    slot: int
    clock_s: float
    buffer_ms: float
    delay_ms: float
    sleep_ms: float
    stall_ms: float


def fetch(
    edges_s: Floats,
    bytes_per_s: Floats,
    first: int,
    last: int,
    slot: int,
    clock_s: float,
    size_bytes: float,
    payload: float,
    wrap_s: float,
) -> tuple[int, float, float]:
    """Receive `size_bytes`; returns the new slot and clock, and the seconds it took. Slots without
    bandwidth only add time.
    """
    sent = 0.0
    download_s = 0.0
    duration_s = edges_s[slot + 1] - clock_s
    arriving = bytes_per_s[slot] * duration_s * payload
    while sent + arriving <= size_bytes:  # strictly more than the chunk must fit, else the next slot finishes it
        sent += arriving
        download_s += duration_s
        slot += 1
        clock_s = edges_s[slot]
        if slot == last:
            slot = first
            clock_s = wrap_s
        duration_s = edges_s[slot + 1] - clock_s
        arriving = bytes_per_s[slot] * duration_s * payload
    rest_s = (size_bytes - sent) / bytes_per_s[slot] / payload
    return slot, clock_s + rest_s, download_s + rest_s


def wait(
    edges_s: Floats, first: int, last: int, slot: int, clock_s: float, wait_ms: float, wrap_s: float
) -> tuple[int, float, float]:
    """Let `wait_ms` pass on the link; returns slot, clock and the part of the wait that fell in the last slot."""
    duration_s = edges_s[slot + 1] - clock_s
    while duration_s <= wait_ms / 1000.0:
        wait_ms -= duration_s * 1000.0
        slot += 1
        clock_s = edges_s[slot]
        if slot == last:
            slot = first
            clock_s = wrap_s
        duration_s = edges_s[slot + 1] - clock_s
    return slot, clock_s + wait_ms / 1000.0, wait_ms


def play(buffer_ms: float, delay_ms: float, chunk_ms: float) -> tuple[float, float]:
    """Play while one chunk downloads, then add the chunk; returns the buffer and how long the picture stood still."""
    return max(buffer_ms - delay_ms, 0.0) + chunk_ms, max(delay_ms - buffer_ms, 0.0)


def full_buffer_sleep_ms(buffer_ms: float, cap_ms: float, drain_ms: float) -> float:
    """How long a player sleeps before its next request, so that the buffer is at its cap or just below."""
    if buffer_ms <= cap_ms:
        return 0.0
    return math.ceil((buffer_ms - cap_ms) / drain_ms) * drain_ms


def download(
    edges_s: Floats,
    bytes_per_s: Floats,
    latency_ms: Floats,
    first: int,
    last: int,
    slot: int,
    clock_s: float,
    buffer_ms: float,
    size_bytes: float,
    chunk_ms: float,
    noise: float,
    rule: Rule,
) -> Arrival:
    """Download one chunk of `chunk_ms` and play meanwhile. `noise` multiplies the download (1 is none)."""
    wrap_s = 0.0 if rule.wrap_to_zero else edges_s[first]
    round_trip_ms = rule.rtt_ms
    if rule.slot_latency:
        round_trip_ms += latency_ms[slot]
    if rule.round_trip_on_clock:
        # Noise is part of the link here (a slower link, a longer round trip), so that the two clocks stay one.
        round_trip_ms *= noise
        slot, clock_s, _ = wait(edges_s, first, last, slot, clock_s, round_trip_ms, wrap_s)
        slot, clock_s, download_s = fetch(
            edges_s, bytes_per_s, first, last, slot, clock_s, size_bytes * noise, rule.payload, wrap_s
        )
        delay_ms = download_s * 1000.0 + round_trip_ms
    else:
        slot, clock_s, download_s = fetch(
            edges_s, bytes_per_s, first, last, slot, clock_s, size_bytes, rule.payload, wrap_s
        )
        delay_ms = (download_s * 1000.0 + round_trip_ms) * noise
    buffer_ms, stall_ms = play(buffer_ms, delay_ms, chunk_ms)
    sleep_ms = full_buffer_sleep_ms(buffer_ms, rule.buffer_cap_ms, rule.drain_ms)
    if sleep_ms > 0.0:
        buffer_ms -= sleep_ms
        slot, clock_s, rest_ms = wait(edges_s, first, last, slot, clock_s, sleep_ms, wrap_s)
        if not rule.full_sleep:
            sleep_ms = rest_ms
    return Arrival(slot, clock_s, buffer_ms, delay_ms, sleep_ms, stall_ms)
