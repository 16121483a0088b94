"""What the rest of a video can be worth at most, from any moment: lets the search for the optimum drop what cannot win.

Backwards over chunks, on a grid of lateness and stalls (see `label_search`), in the relaxed rule. A cell stands for its
best corner: its earliest moment. For stalls between two grid lines there are two bounds, and the lower one holds: as
after more stalls (more slack for what is to come), or as after fewer, and the difference refunded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_SLOTS = 4_000_000
FINEST_MS = 10.0
FIRST_LEVEL_MS = 250.0
SLACK_MS = 1e-5  # what sums in another order may differ by


class Timeline(NamedTuple):
    """The link from the first decision on, passes of the trace laid end to end."""

    time_ms: Floats  # edges of slots
    sent_bytes: Floats  # what could have arrived by then
    trip_ms: Floats  # round trip of a request in each slot
    still_ms: float  # part of each round trip during which the link stands still


class Bounds(NamedTuple):
    """`hope[chunk, cell, level, rung]`: what can still be earned after that chunk."""

    hope: npt.NDArray[np.float64]
    least_stall_ms: Floats
    level_ms: Floats
    cell_ms: float
    cap_ms: float
    chunk_ms: float
    price_per_ms: float


def timeline(links: Any, slot: int, clock_s: float, rule: Any, until_ms: float) -> Timeline | None:
    """The link for `until_ms` from here on; None when that takes too many slots."""
    last = int(links.last[0])
    wrap_s = 0.0 if rule.wrap_to_zero else float(links.edges_s[0])
    edges = links.edges_s[: last + 1]
    later = np.diff(np.concatenate([[wrap_s], edges[1:]]))
    passes = int(until_ms / 1000.0 / max(later.sum(), 1e-9)) + 1
    if passes * last > MAX_SLOTS:
        return None
    first = np.diff(np.concatenate([[clock_s], edges[slot + 1 :]]))
    seconds = np.concatenate([first, np.tile(later, passes)])
    rates = np.concatenate([links.bytes_per_s[slot:last], np.tile(links.bytes_per_s[:last], passes)])
    latency = np.concatenate([links.latency_ms[slot:last], np.tile(links.latency_ms[:last], passes)])
    trips = rule.rtt_ms + (latency if rule.slot_latency else np.zeros_like(latency))
    still = 0.0
    if not rule.round_trip_on_clock:
        still = float(trips.min())
        trips = np.zeros_like(trips)
    return Timeline(
        np.concatenate([[0.0], np.cumsum(seconds)]) * 1000.0,
        np.concatenate([[0.0], np.cumsum(rates * seconds)]) * rule.payload,
        trips,
        still,
    )


def bounds(
    line: Timeline | None,
    first_late_ms: float,
    sizes_bytes: Floats,
    utilities: Floats,
    chunk_ms: float,
    cap_ms: float,
    price_per_ms: float,
    smooth: float,
    most_stall_ms: float,
    entries: int,
) -> Bounds:
    """Bounds for labels that stall no more than `most_stall_ms`, on a grid of so many `entries`.

    Without a timeline they are as if chunks took no time.
    """
    chunks, rungs = sizes_bytes.shape
    instant = line is None or not most_stall_ms < np.inf
    if line is None:
        line = Timeline(np.zeros(2), np.zeros(2), np.zeros(1), 0.0)
    levels = [0.0, FIRST_LEVEL_MS]
    while not instant and levels[-1] < most_stall_ms:
        levels.append(2.0 * levels[-1])
    reach_ms = cap_ms + (0.0 if instant else most_stall_ms)
    cells = int(min(reach_ms / FINEST_MS, entries / (chunks * rungs * len(levels)))) + 2
    grid = Bounds(
        np.zeros((chunks, cells, len(levels), rungs)),
        np.zeros(chunks),
        np.array(levels),
        reach_ms / (cells - 1),
        cap_ms,
        chunk_ms,
        price_per_ms,
    )
    _fill(grid, line, instant, first_late_ms, sizes_bytes, utilities, smooth, most_stall_ms)
    return grid


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _arrival_ms(line: Any, at_ms: float, size: float) -> Any:
    """When a chunk asked for at `at_ms` has arrived, on the link's own clock; infinity beyond the timeline."""
    slots = line.trip_ms.shape[0]
    slot = np.searchsorted(line.time_ms, at_ms, side="right") - 1
    if slot >= slots:
        return np.inf
    start_ms = at_ms + line.trip_ms[slot]
    while slot + 1 < slots and line.time_ms[slot + 1] < start_ms:  # a later slot may answer sooner
        slot += 1
        start_ms = min(start_ms, line.time_ms[slot] + line.trip_ms[slot])
    slot = np.searchsorted(line.time_ms, start_ms, side="right") - 1
    if slot >= slots:
        return np.inf
    share = (start_ms - line.time_ms[slot]) / (line.time_ms[slot + 1] - line.time_ms[slot])
    wanted = line.sent_bytes[slot] + share * (line.sent_bytes[slot + 1] - line.sent_bytes[slot]) + size
    if wanted > line.sent_bytes[-1]:
        return np.inf
    slot = np.searchsorted(line.sent_bytes, wanted, side="left") - 1
    share = (wanted - line.sent_bytes[slot]) / (line.sent_bytes[slot + 1] - line.sent_bytes[slot])
    return line.time_ms[slot] + share * (line.time_ms[slot + 1] - line.time_ms[slot])


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _hope_at(grid: Any, chunk: int, late_ms: float, stall_ms: float, rung: int) -> Any:
    cells, levels = grid.hope.shape[1], grid.hope.shape[2]
    cell = min(max(int((late_ms + grid.cap_ms - SLACK_MS) / grid.cell_ms), 0), cells - 1)
    corner_ms = cell * grid.cell_ms - grid.cap_ms
    # Who is this late has stalled this much: levels count from there.
    extra_ms = stall_ms - max(grid.least_stall_ms[chunk], corner_ms + grid.chunk_ms)
    below = 0
    while below + 1 < levels and grid.level_ms[below + 1] <= extra_ms:
        below += 1
    hope = grid.hope[chunk, cell, below, rung] + grid.price_per_ms * max(extra_ms - grid.level_ms[below], 0.0)
    if below + 1 < levels:
        hope = min(hope, grid.hope[chunk, cell, below + 1, rung])
    return hope


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _fill(
    grid: Any,
    line: Any,
    instant: bool,
    first_late_ms: float,
    sizes: Any,
    utilities: Any,
    smooth: float,
    most_stall_ms: float,
) -> None:
    chunks, rungs = sizes.shape
    pace_ms = grid.chunk_ms - line.still_ms  # what the link's clock gains on lateness per chunk
    earliest_ms = 0.0
    for chunk in range(1, chunks):
        grid.least_stall_ms[chunk] = grid.least_stall_ms[chunk - 1]
        if not instant:
            earliest_ms = _arrival_ms(line, earliest_ms, sizes[chunk].min())
            late_ms = earliest_ms - chunk * pace_ms + first_late_ms - SLACK_MS
            if late_ms < np.inf:
                grid.least_stall_ms[chunk] = max(grid.least_stall_ms[chunk], late_ms + grid.chunk_ms)
            earliest_ms = max(earliest_ms, chunk * pace_ms - first_late_ms - grid.cap_ms)
    lates_ms = np.empty(rungs)
    earned = np.empty(rungs)
    for chunk in range(chunks - 2, -1, -1):
        for cell in range(grid.hope.shape[1]):
            corner_ms = cell * grid.cell_ms - grid.cap_ms
            at_ms = max(chunk * pace_ms + corner_ms - first_late_ms, 0.0)
            for rung in range(rungs):
                lates_ms[rung] = -grid.cap_ms
                if not instant:
                    arrival_ms = _arrival_ms(line, at_ms, sizes[chunk + 1, rung])
                    lates_ms[rung] = arrival_ms - (chunk + 1) * pace_ms + first_late_ms - SLACK_MS
            for level in range(grid.level_ms.shape[0]):
                stall_ms = grid.level_ms[level] + max(grid.least_stall_ms[chunk], corner_ms + grid.chunk_ms)
                for rung in range(rungs):
                    after_ms = max(stall_ms, lates_ms[rung] + grid.chunk_ms)
                    earned[rung] = -np.inf
                    if after_ms == stall_ms or after_ms <= most_stall_ms:
                        earned[rung] = utilities[chunk + 1, rung] - grid.price_per_ms * (after_ms - stall_ms)
                        earned[rung] += _hope_at(grid, chunk + 1, max(lates_ms[rung], -grid.cap_ms), after_ms, rung)
                for last in range(rungs):
                    best = -np.inf
                    for rung in range(rungs):
                        switch = smooth * abs(utilities[chunk + 1, rung] - utilities[chunk, last])
                        best = max(best, earned[rung] - switch)
                    grid.hope[chunk, cell, level, last] = best


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def hopes(grid: Any, chunk: int, labels: Any) -> Any:
    """The bound for each label."""
    found = np.empty(labels.shape[0])
    for i in range(labels.shape[0]):
        label = labels[i]
        late_ms = label.stall_ms - label.buffer_ms
        found[i] = _hope_at(grid, chunk, late_ms, label.stall_ms, label.rung)
    return found
