"""The rule for a whole batch of players at once, as pointwise torch operations.

Instead of walking from slot to slot, a player's place on the link is looked up in prefix sums: bytes that could have
passed since the trace began. Two binary searches per chunk, the same number of operations for every player, so the
whole step fuses into one GPU kernel. In float64 it agrees with `rule.download` to about 1e-9 (see TOLERANCE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.stream.data.traces import Trace
    from reelrl.stream.simulator.rule import Rule

# Largest difference from the scalar rule, of any time in ms: sums are taken in another order.
TOLERANCE_MS = 1e-5


class TorchLinks(NamedTuple):
    """Traces laid end to end, with what has passed at each edge. `steps` halvings find any slot."""

    edges_s: Tensor
    passed_bytes: Tensor  # at each edge since the trace began, headers taken off
    bytes_per_s: Tensor
    latency_ms: Tensor
    first: Tensor
    last: Tensor
    duration_s: Tensor
    total_bytes: Tensor
    steps: int


class Batch(NamedTuple):
    """What one chunk did to every player."""

    clock_s: Tensor
    buffer_ms: Tensor
    delay_ms: Tensor
    sleep_ms: Tensor
    stall_ms: Tensor


def torch_links(traces: list[Trace], rule: Rule, device: torch.device) -> TorchLinks:
    """The traces as tensors, each starting at time 0."""
    for trace in traces:
        if rule.wrap_to_zero and trace.edges_s[0] != 0.0:
            raise ConfigError(
                f"{trace.name} starts at {trace.edges_s[0]:g} s; Pensieve's wrap-around to 0 is batched only "
                "for traces that start at 0"
            )
    edges = [t.edges_s - t.edges_s[0] for t in traces]
    rates = [np.append(t.bytes_per_s, 0.0) * rule.payload for t in traces]
    passed = [np.concatenate([[0.0], np.cumsum(r[:-1] * np.diff(e))]) for r, e in zip(rates, edges, strict=True)]
    last = np.cumsum([len(e) for e in edges]) - 1
    first = last - np.array([len(e) - 1 for e in edges])

    def floats(values: object) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float64), device=device)

    return TorchLinks(
        floats(np.concatenate(edges)),
        floats(np.concatenate(passed)),
        floats(np.concatenate(rates)),
        floats(np.concatenate([np.append(t.latency_ms, 0.0) for t in traces])),
        torch.as_tensor(first, device=device),
        torch.as_tensor(last, device=device),
        floats([e[-1] for e in edges]),
        floats([p[-1] for p in passed]),
        int(max(len(e) for e in edges)).bit_length(),
    )


def find_slot(table: Tensor, first: Tensor, last: Tensor, value: Tensor, steps: int) -> Tensor:
    """The last slot of each player's trace whose entry in `table` is not above `value`."""
    slot = first
    end = last - 1
    for power in range(steps - 1, -1, -1):
        candidate = torch.minimum(slot + (1 << power), end)
        slot = torch.where(table[candidate] <= value, candidate, slot)
    return slot


def torch_download(
    links: TorchLinks,
    trace: Tensor,
    clock_s: Tensor,
    buffer_ms: Tensor,
    size_bytes: Tensor,
    chunk_ms: float | Tensor,
    noise: Tensor,
    rule: Rule,
) -> Batch:
    """`rule.download` for every player; `clock_s` is the time since the start of the player's current pass."""
    first, last = links.first[trace], links.last[trace]
    duration_s, total_bytes = links.duration_s[trace], links.total_bytes[trace]
    slot = find_slot(links.edges_s, first, last, clock_s, links.steps)
    round_trip_ms = torch.zeros_like(clock_s) + rule.rtt_ms
    if rule.slot_latency:
        round_trip_ms = round_trip_ms + links.latency_ms[slot]
    asked_bytes = size_bytes
    start_s = clock_s
    if rule.round_trip_on_clock:
        round_trip_ms = round_trip_ms * noise
        asked_bytes = size_bytes * noise
        start_s = _into_pass(clock_s + round_trip_ms / 1000.0, duration_s)
        slot = find_slot(links.edges_s, first, last, start_s, links.steps)
    target = links.passed_bytes[slot] + links.bytes_per_s[slot] * (start_s - links.edges_s[slot]) + asked_bytes
    passes = torch.floor(target / total_bytes)
    # Rounding may leave the remainder a hair outside its pass; the hair is worth less than the tolerance.
    target = torch.minimum((target - passes * total_bytes).clamp_min(0.0), total_bytes * (1.0 - 1e-15))
    slot = find_slot(links.passed_bytes, first, last, target, links.steps)
    end_s = links.edges_s[slot] + (target - links.passed_bytes[slot]) / links.bytes_per_s[slot]
    delay_ms = (passes * duration_s + end_s - start_s) * 1000.0 + round_trip_ms
    if not rule.round_trip_on_clock:
        delay_ms = delay_ms * noise
    stall_ms = (delay_ms - buffer_ms).clamp_min(0.0)
    full_ms = (buffer_ms - delay_ms).clamp_min(0.0) + chunk_ms
    sleep_ms = torch.ceil((full_ms - rule.buffer_cap_ms).clamp_min(0.0) / rule.drain_ms) * rule.drain_ms
    clock_s = _into_pass(end_s + sleep_ms / 1000.0, duration_s)
    return Batch(clock_s, full_ms - sleep_ms, delay_ms, sleep_ms, stall_ms)


def _into_pass(clock_s: Tensor, duration_s: Tensor) -> Tensor:
    return clock_s - torch.floor(clock_s / duration_s) * duration_s
