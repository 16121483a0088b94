"""What the scale-free policy sees and scores, compiled for one core: `features` and `network` for players of one video.

The same formulas, which are written for a million players on a GPU; the tests hold the scores equal. Arrays are filled
in place, player by player, and stay in the core's cache from the features to the scores.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np

from reelrl.stream.scalefree.sizes import HISTORY, MEMORY_S

if TYPE_CHECKING:
    from collections.abc import Callable

SPANS = len(MEMORY_S)
_SPANS_S = np.array(MEMORY_S)
RESTLESS = 0.35
"""The deviation of the log rate, over two minutes, from which a link counts as restless and caution in full."""
LOWEST, LONGEST, FADING, JUMPS, ELAPSED = range(2 * SPANS, 2 * SPANS + 5)


T = TypeVar("T", bound="Callable[..., Any]")


def _compiled(**more: Any) -> Callable[[T], T]:
    compile_it: Callable[[T], T] = numba.njit(cache=True, nogil=True, error_model="numpy", **more)
    return compile_it


@_compiled(inline="always")
def _near(value: float) -> float:
    return 0.5 * min(max(value, -6.0), 6.0)


@_compiled()
def _measure(rates: Any, delays: Any, memory: Any, seen: int, rate_mbps: float, delay_s: float) -> None:
    """One more download of one player: `features.measured`. `seen` counts it."""
    rate = math.log(min(max(rate_mbps, 1e-3), 1e5))
    delay_s = min(max(delay_s, 1e-2), 1e4)
    first = seen == 1
    jump = abs(rate - rates[HISTORY - 1])
    for k in range(HISTORY - 1):
        rates[k], delays[k] = rates[k + 1], delays[k + 1]
    rates[HISTORY - 1], delays[HISTORY - 1] = rate, math.log(delay_s)
    for index in range(SPANS):
        share = 1.0 - math.exp(-delay_s / _SPANS_S[index])
        mean, variance = memory[2 * index], memory[2 * index + 1]
        off = rate - mean
        memory[2 * index] = rate if first else mean + share * off
        memory[2 * index + 1] = 0.0 if first else (1.0 - share) * (variance + share * off * off)
    memory[LOWEST] = rate if first else min(memory[LOWEST], rate)
    memory[LONGEST] = delay_s if first else max(memory[LONGEST], delay_s)
    memory[FADING] = delay_s if first else max(0.94 * memory[FADING], delay_s)
    memory[JUMPS] = 0.0 if first else memory[JUMPS] + 0.2 * (jump - memory[JUMPS])
    memory[ELAPSED] = delay_s if first else memory[ELAPSED] + delay_s


@_compiled(inline="always")
def _counted_s(buffer_s: float, left_s: float, wishes: Any) -> float:
    """The buffer that the thrifty play with: the emptier it is, the less of it. Before the end all of it is spent."""
    thrift = wishes.thrift
    if left_s < wishes.ease_s:
        thrift *= left_s / wishes.ease_s
    counted_s: float = buffer_s * min(buffer_s / wishes.cap_s, 1.0) ** thrift
    return counted_s


@_compiled()
def see(
    states: Any, rates: Any, delays: Any, memory: Any, seen: Any, offers: Any, wishes: Any, context: Any, rungs: Any
) -> None:
    """Take the newest column of every state and fill `context` and `rungs`, player by player.

    A state with one measurement is a session's first: what was measured before is forgotten.
    """
    sizes_mbit, utilities, relative, rates_mbps = (
        offers.sizes_mbit,
        offers.utilities,
        offers.relative_sizes,
        offers.rates_mbps,
    )
    chunks, count = utilities.shape
    columns = states.shape[2]
    last = columns - 1
    for i in range(len(states)):
        state = states[i]
        if columns == 1 or state[3, last - 1] == 0.0:
            seen[i] = 0
        seen[i] += 1
        _measure(rates[i], delays[i], memory[i], seen[i], float(state[2, last]) * 8.0, float(state[3, last]) * 10.0)
        chunk = min(max(chunks - round(float(state[5, last]) * chunks), 0), chunks - 1)
        last_rung = np.abs(rates_mbps - float(state[0, last]) * rates_mbps[count - 1]).argmin()
        last_utility = utilities[max(chunk - 1, 0), last_rung]
        remaining = chunks - chunk
        buffer_s = _counted_s(float(state[1, last]) * 10.0, remaining * wishes.chunk_s, wishes)
        _context(context[i], rates[i], delays[i], memory[i], min(seen[i], HISTORY), rates_mbps, buffer_s, wishes)
        at = 3 * HISTORY + 3 * SPANS + 18
        context[i, at] = last_utility
        context[i, at + 1] = min(remaining / 40.0, 1.0)
        context[i, at + 2] = math.exp(-remaining / 4.0)
        for k in range(context.shape[1] - at - 3):
            context[i, at + 3 + k] = math.log(min(max(relative[chunk + 1 + k], 0.1), 10.0))
        _rungs(
            rungs[i * count : (i + 1) * count],
            rates[i],
            memory[i],
            min(seen[i], HISTORY),
            sizes_mbit[chunk],
            utilities[chunk],
            rates_mbps,
            last_utility,
            buffer_s,
            wishes,
        )


@_compiled()
def _context(
    row: Any, rates: Any, delays: Any, memory: Any, seen: int, rates_mbps: Any, buffer_s: float, wishes: Any
) -> None:
    """All but what depends on the chunk."""
    deviation = math.sqrt(memory[2 * SPANS - 1])
    dread = max(wishes.caution - 1.0, 0.0) * min(deviation / RESTLESS, 1.0)
    top, lowest = math.log(rates_mbps[-1]), math.log(rates_mbps[0])
    for k in range(HISTORY):
        there = k >= HISTORY - seen
        row[k] = _near(rates[k] - top) if there else 0.0
        row[HISTORY + k] = 0.5 * delays[k] if there else 0.0
        row[2 * HISTORY + k] = 1.0 if there else 0.0
    at = 3 * HISTORY
    for k in range(SPANS):
        row[at + k] = _near(memory[2 * k] - top)
        row[at + SPANS + k] = _near(memory[2 * k] - lowest)
        row[at + 2 * SPANS + k] = math.sqrt(memory[2 * k + 1])
    at += 3 * SPANS
    row[at] = _near(memory[LOWEST] - top)
    row[at + 1] = _near(memory[LOWEST] - lowest)
    row[at + 2] = 0.5 * math.log1p(memory[LONGEST])
    row[at + 3] = 0.5 * math.log1p(memory[FADING])
    row[at + 4] = memory[JUMPS]
    row[at + 5] = 0.3 * math.log1p(memory[ELAPSED])
    row[at + 6] = 0.5 * math.log1p(buffer_s)
    row[at + 7] = buffer_s / 30.0
    row[at + 8] = buffer_s / wishes.cap_s
    row[at + 9] = 0.5 * math.log1p(buffer_s / wishes.chunk_s)
    row[at + 10] = math.log(wishes.chunk_s)
    row[at + 11] = math.log(wishes.cap_s / 30.0)
    row[at + 12] = 0.5 * math.log(wishes.stall_penalty + 1e-2)
    row[at + 13] = min(wishes.caution, 1.0)
    row[at + 14] = 0.5 * math.log1p(dread)
    row[at + 15] = math.log1p(wishes.smooth_penalty)
    row[at + 16] = 0.5 * (top - lowest)
    row[at + 17] = len(rates_mbps) / 8.0


@_compiled()
def _rungs(
    rows: Any,
    rates: Any,
    memory: Any,
    seen: int,
    sizes_mbit: Any,
    utilities: Any,
    rates_mbps: Any,
    last_utility: float,
    buffer_s: float,
    wishes: Any,
) -> None:
    count, chunk_s = len(sizes_mbit), wishes.chunk_s
    top, long_mean = math.log(rates_mbps[count - 1]), memory[2 * SPANS - 2]
    harmonic = worst = last = 0.0
    for k in range(HISTORY - seen, HISTORY):
        last = math.exp(-rates[k])  # seconds per megabit
        worst = max(worst, last)
        harmonic += last if k >= HISTORY - 5 else 0.0
    harmonic /= min(seen, 5)
    dread = min(wishes.stall_penalty, 4.0)
    paces = (harmonic, worst, last, math.exp(-long_mean))
    for r in range(count):
        row, size = rows[r], sizes_mbit[r]
        for k in range(4):
            took_s = size * paces[k]
            row[k] = 0.5 * math.log(took_s + 1e-2)
            row[4 + k] = math.tanh((buffer_s - took_s) / 10.0)
        by_mean_s, at_worst_s, long_s = size * harmonic, size * worst, size * paces[3]
        row[8] = math.tanh((buffer_s - by_mean_s) / chunk_s)
        row[9] = math.tanh((buffer_s - at_worst_s) / chunk_s)
        row[10] = math.tanh((by_mean_s - chunk_s) / chunk_s)
        row[11] = math.tanh((at_worst_s - chunk_s) / chunk_s)
        row[12] = math.tanh((long_s - chunk_s) / chunk_s)
        nominal, change = math.log(rates_mbps[r]), utilities[r] - last_utility
        row[13] = _near(nominal + math.log(harmonic))
        row[14] = _near(nominal - long_mean)
        row[15] = _near(nominal - top)
        row[16] = min(max(math.log(size / (rates_mbps[r] * chunk_s)), -3.0), 3.0)
        row[17] = utilities[r]
        row[18] = change
        row[19] = abs(change) * wishes.smooth_penalty
        row[20] = dread * min(max(by_mean_s - buffer_s, 0.0), 4.0)
        row[21] = dread * min(max(at_worst_s - buffer_s, 0.0), 4.0)
        row[22] = utilities[r + 1] - utilities[r] if r + 1 < count else 0.0
        row[23] = 1.0 if r + 1 < count else 0.0


_ONE, _TWO, _HALF, _EIGHTH, _FAR = (np.float32(value) for value in (1.0, 2.0, 0.5, 0.125, 2.25))
# Of Lambert's continued fraction for the hyperbolic tangent.
_C = tuple(np.float32(value) for value in (135135.0, 17325.0, 378.0, 62370.0, 3150.0, 28.0))
_C0, _C1, _C2, _C3, _C4, _C5 = _C


@_compiled(fastmath=True, inline="always")
def _silu(x: Any) -> Any:
    """SiLU, x times the logistic function of x, in operations that a core does eight at a time.

    It is x (1 + tanh(x / 2)) / 2; the tangent of an eighth of x by a fraction, then its angle doubled twice.
    """
    u = min(max(x * _EIGHTH, -_FAR), _FAR)
    square = u * u
    t = u * (_C0 + square * (_C1 + square * (_C2 + square))) / (_C0 + square * (_C3 + square * (_C4 + square * _C5)))
    t = _TWO * t / (_ONE + t * t)
    t = _TWO * t / (_ONE + t * t)
    return x * (_HALF + _HALF * t)


@_compiled(fastmath=True)
def activate(values: Any, bias: Any) -> None:
    """SiLU of values (rows, width) plus bias, in place."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = _silu(values[i, j] + bias[j])


@_compiled(fastmath=True)
def activate_rungs(each: Any, shared: Any, bias: Any, together: Any) -> None:
    """SiLU of every rung's values plus its player's; `together` becomes their mean and their maximum over rungs."""
    players, width = shared.shape
    rungs = len(each) // players
    share = _ONE / np.float32(rungs)
    for i in range(players):
        for r in range(i * rungs, (i + 1) * rungs):
            for j in range(width):
                value = _silu(each[r, j] + shared[i, j] + bias[j])
                each[r, j] = value
                first = r == i * rungs
                together[i, j] = value * share if first else together[i, j] + value * share
                together[i, width + j] = value if first else max(together[i, width + j], value)


@_compiled(fastmath=True)
def score(mixed: Any, shared: Any, bias: Any, weights: Any, offset: Any, scores: Any) -> None:
    """The last layer: SiLU of every rung's values plus its player's, weighed and summed."""
    players, rungs = scores.shape
    for i in range(players):
        for r in range(rungs):
            total = offset
            for j in range(len(bias)):
                total += weights[j] * _silu(mixed[i * rungs + r, j] + shared[i, j] + bias[j])
            scores[i, r] = total
