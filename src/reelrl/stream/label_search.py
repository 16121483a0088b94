"""Ways to have downloaded the first chunks, followed chunk by chunk: the search behind the offline optimum.

A label is one such way. Time is told as lateness: how much later than in a session without stalls the next request
goes out, less the chunks in hand; `late_ms = stall_ms - buffer_ms`, whatever the chunk.

Which labels can be forgotten: with the same last rung, A makes B superfluous when it is no later, is worth as much, and
was worth as much before stalls were paid for. Whatever B does next, A can do: it is served no later, and where A stalls
and B does not, B has stalled before, which A can pay for out of its lead. Labels of other rungs say so too once the
switch is paid for, since |a - c| <= |a - b| + |b - c|.

Two things in the rule break "served no later": a full player sleeps in whole steps, and a later slot may answer so much
faster that it overtakes. In the relaxed rule a player sleeps just as long as it must, no longer for having stalled, and
may wait for the better slot. No plan is worth less in it, so what is best there bounds what can be reached.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from reelrl.stream.simulator import kernels, rule  # kernels registers the rule's functions with numba

LABEL = np.dtype(
    [
        ("slot", np.int64),
        ("clock_s", np.float64),
        ("buffer_ms", np.float64),
        ("stall_ms", np.float64),  # since the first decision
        ("worth", np.float64),  # quality less switches; the value is this less the price of the stalls
        ("rung", np.int64),
        ("parent", np.int64),
    ]
)


def round_trip_ms(links: Any, slot: int, clock_s: float, rule_: Any, wrap_s: float) -> Any:
    """How long until bytes can flow, at best: a player that waits for a slot with a faster answer may be quicker."""
    soonest = rule_.rtt_ms + (links.latency_ms[slot] if rule_.slot_latency else 0.0)
    if not rule_.slot_latency:
        return soonest
    last = links.last[0]
    if not rule_.round_trip_on_clock:  # the link stands still: only the quickest answer bounds all of them
        return rule_.rtt_ms + links.latency_ms[:last].min()
    wait_ms = (links.edges_s[slot + 1] - clock_s) * 1000.0
    while wait_ms < soonest:
        slot += 1
        begin_s = links.edges_s[slot]
        if slot == last:
            slot, begin_s = 0, wrap_s
        soonest = min(soonest, wait_ms + rule_.rtt_ms + links.latency_ms[slot])
        wait_ms += (links.edges_s[slot + 1] - begin_s) * 1000.0
    return soonest


def relaxed_download(
    links: Any, slot: int, clock_s: float, buffer_ms: float, stall_ms: float, size: float, chunk_ms: float, rule_: Any
) -> tuple[int, float, float, float]:
    """One chunk in the relaxed rule: slot, clock, buffer, and all stalls so far."""
    last = links.last[0]
    wrap_s = 0.0 if rule_.wrap_to_zero else links.edges_s[0]
    trip_ms = round_trip_ms(links, slot, clock_s, rule_, wrap_s)
    if rule_.round_trip_on_clock:
        slot, clock_s, _ = rule.wait(links.edges_s, 0, last, slot, clock_s, trip_ms, wrap_s)
    slot, clock_s, download_s = rule.fetch(
        links.edges_s, links.bytes_per_s, 0, last, slot, clock_s, size, rule_.payload, wrap_s
    )
    buffer_ms, stalled_ms = rule.play(buffer_ms, download_s * 1000.0 + trip_ms, chunk_ms)
    stall_ms += stalled_ms
    sleep_ms = buffer_ms - stall_ms - rule_.buffer_cap_ms
    if sleep_ms > 0.0:
        slot, clock_s, _ = rule.wait(links.edges_s, 0, last, slot, clock_s, sleep_ms, wrap_s)
        buffer_ms -= sleep_ms
    return slot, clock_s, buffer_ms, stall_ms


for _function in (round_trip_ms, relaxed_download):
    numba.extending.register_jitable(_function)


def _compile(stamp: int) -> Any:
    @numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
    def expand(
        labels: Any,
        sizes: Any,
        utilities: Any,
        last_utilities: Any,
        chunk_ms: float,
        smooth: float,
        links: Any,
        rule_: Any,
        relaxed: bool,
    ) -> Any:
        """Every label followed by every rung."""
        rungs = sizes.shape[0]
        following = np.zeros(labels.shape[0] * rungs + min(stamp, 0), dtype=labels.dtype)
        for i in range(labels.shape[0]):
            label = labels[i]
            for rung in range(rungs):
                new = following[i * rungs + rung]
                if relaxed:
                    new.slot, new.clock_s, new.buffer_ms, new.stall_ms = relaxed_download(
                        links,
                        label.slot,
                        label.clock_s,
                        label.buffer_ms,
                        label.stall_ms,
                        sizes[rung],
                        chunk_ms,
                        rule_,
                    )
                else:
                    got = rule.download(
                        links.edges_s,
                        links.bytes_per_s,
                        links.latency_ms,
                        0,
                        links.last[0],
                        label.slot,
                        label.clock_s,
                        label.buffer_ms,
                        sizes[rung],
                        chunk_ms,
                        1.0,
                        rule_,
                    )
                    new.slot, new.clock_s, new.buffer_ms = got.slot, got.clock_s, got.buffer_ms
                    new.stall_ms = label.stall_ms + got.stall_ms
                switch = abs(utilities[rung] - last_utilities[label.rung])
                new.worth = label.worth + utilities[rung] - smooth * switch
                new.rung = rung
                new.parent = i
        return following

    return expand


expand = _compile(kernels.source_stamp(rule))


def distinct(labels: Any) -> Any:
    """The index of the best label in each state: those in the same state have the same future in any rule."""
    state = (labels["rung"], np.round(labels["stall_ms"], 6), np.round(labels["buffer_ms"], 6))
    order = np.lexsort((-labels["worth"], *state))
    changes = [np.diff(part[order], prepend=np.nan) != 0 for part in state]
    return order[np.logical_or.reduce(changes)]


def undominated(labels: Any, values: Any, utilities: Any, smooth: float, tolerance: float) -> Any:
    """Which labels no other makes superfluous, within `tolerance` of value."""
    # Sums in another order differ in their last bits: to a nanosecond it is the same moment.
    late_ms = np.round(labels["stall_ms"] - labels["buffer_ms"], 6)
    order = np.lexsort((-values, late_ms))
    return _sweep(order, labels["rung"], values, labels["worth"], utilities, smooth, tolerance)


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _sweep(order: Any, rungs: Any, values: Any, worths: Any, utilities: Any, smooth: float, tolerance: float) -> Any:
    """Earliest first: whoever comes later must be worth more, now or before stalls.

    Each rung has a Fenwick tree over its labels by value, best first, that answers "the highest worth among those seen
    with at least this value".
    """
    count, kinds = order.shape[0], utilities.shape[0]
    begin = np.zeros(kinds + 1, np.int64)
    for i in range(count):
        begin[rungs[i] + 1] += 1
    begin = np.cumsum(begin)
    by_value = np.argsort(-values)
    ranked = np.empty(count)  # minus the values of each rung's labels, ascending
    rank = np.empty(count, np.int64)
    filled = begin[:-1].copy()
    for i in by_value:
        place = filled[rungs[i]]
        ranked[place] = -values[i]
        rank[i] = place - begin[rungs[i]]
        filled[rungs[i]] += 1
    tree = np.full(count + kinds, -np.inf)  # rung r's tree is 1-based from begin[r] + r
    keep = np.zeros(count, np.bool_)
    for i in order:
        own = begin[rungs[i]] + rungs[i]
        node = rank[i] + 1
        highest = -np.inf
        while node > 0:
            highest = max(highest, tree[own + node])
            node -= node & -node
        if highest >= worths[i] - tolerance:
            continue
        keep[i] = True
        for other in range(kinds):
            size = begin[other + 1] - begin[other]
            price = smooth * abs(utilities[other] - utilities[rungs[i]])
            span = ranked[begin[other] : begin[other + 1]]
            node = np.searchsorted(span, price - values[i] - tolerance) + 1
            while node <= size:
                tree[begin[other] + other + node] = max(tree[begin[other] + other + node], worths[i] - price)
                node += node & -node
    return keep
