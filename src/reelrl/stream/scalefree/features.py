"""What the scale-free policy sees: rates relative to the ladder, sizes as seconds of link, worth relative to the best.

A *context* of CONTEXT numbers describes player and link; each rung of the next chunk adds RUNG numbers of its own. So a
ladder may have any number of rungs: the policy reads them all with the same weights. The same functions serve a million
players on a GPU while it learns and one player afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from reelrl.stream.scalefree.sizes import HISTORY, MEMORY, MEMORY_S

LONG_STALL_S = 2.0
"""A longer stall is an outage that the buffer did not bridge, not a rung that was a little too high."""


class Player(NamedTuple):
    """What stays the same during a video. Penalties are for utilities scaled so that the best is worth 1."""

    chunk_s: Tensor  # (players,), as the next five
    cap_s: Tensor  # seconds of video that the buffer holds
    stall_penalty: Tensor  # per second
    caution: (
        Tensor  # 0: the link will hold; 1: it may break; above: a second of a long stall costs that many times more
    )
    smooth_penalty: Tensor
    top_mbps: Tensor  # nominal rate of the highest rung
    rates_mbps: Tensor  # (players, rungs), nominal
    present: Tensor  # (players, rungs), False where a shorter ladder is padded


class Offer(NamedTuple):
    """What can be chosen now."""

    sizes_mbit: Tensor  # (players, rungs), the next chunk's
    utilities: Tensor  # (players, rungs), the best is worth about 1
    ahead: Tensor  # (players, AHEAD): sizes of the chunks after it relative to their nominal size
    last_utility: Tensor  # (players,), of the chunk before
    remaining: Tensor  # (players,), chunks still to come


class History(NamedTuple):
    """What the player has measured. Rates and delays are logarithms, newest last, 0 where nothing was measured yet."""

    rates: Tensor  # (players, HISTORY), of Mbit/s
    delays: Tensor  # (players, HISTORY), of seconds
    seen: Tensor  # (players, HISTORY), 1 or 0
    memory: Tensor  # (players, MEMORY)
    buffer_s: Tensor  # (players,)


def no_history(players: int, device: torch.device | str = "cpu") -> History:
    """Nothing measured yet."""
    rows = torch.zeros(players, HISTORY, device=device)
    return History(rows, rows, rows, torch.zeros(players, MEMORY, device=device), torch.zeros(players, device=device))


def measured(history: History, rate_mbps: Tensor, delay_s: Tensor, buffer_s: Tensor) -> History:
    """The history after one more download."""
    rate = torch.log(rate_mbps.clamp(1e-3, 1e5))
    delay = torch.log(delay_s.clamp(1e-2, 1e4))
    first = history.seen[:, -1] == 0
    jump = torch.where(first, 0.0, (rate - history.rates[:, -1]).abs())
    memory = _remember(history.memory, first, rate, delay_s.clamp(1e-2, 1e4), jump)

    def pushed(row: Tensor, newest: Tensor) -> Tensor:
        return torch.cat([row[:, 1:], newest[:, None]], dim=1)

    return History(
        pushed(history.rates, rate),
        pushed(history.delays, delay),
        pushed(history.seen, torch.ones_like(rate)),
        memory,
        buffer_s,
    )


def _remember(memory: Tensor, first: Tensor, rate: Tensor, delay_s: Tensor, jump: Tensor) -> Tensor:
    """Mean and variance of the log rate over three spans of time, its lowest, the longest download (ever, and fading),
    how much it jumps, and for how long there were measurements.
    """
    columns = []
    for index, span_s in enumerate(MEMORY_S):
        # A long download says as much about the link as many short ones.
        share = 1.0 - torch.exp(-delay_s / span_s)
        mean, variance = memory[:, 2 * index], memory[:, 2 * index + 1]
        off = rate - mean
        columns += [
            torch.where(first, rate, mean + share * off),
            torch.where(first, 0.0, (1.0 - share) * (variance + share * off.square())),
        ]
    lowest, longest, fading, jumps, elapsed_s = memory[:, -5:].unbind(1)
    columns += [
        torch.where(first, rate, torch.minimum(lowest, rate)),
        torch.where(first, delay_s, torch.maximum(longest, delay_s)),
        torch.where(first, delay_s, torch.maximum(0.94 * fading, delay_s)),
        torch.where(first, 0.0, jumps + 0.2 * (jump - jumps)),
        torch.where(first, delay_s, elapsed_s + delay_s),
    ]
    return torch.stack(columns, dim=1)


def features(player: Player, offer: Offer, history: History) -> tuple[Tensor, Tensor]:
    """The context (players, CONTEXT) and the rungs (players, rungs, RUNG), every entry of order one."""
    top = torch.log(player.top_mbps)
    lowest = torch.log(player.rates_mbps[:, 0])
    seen, rates = history.seen, history.rates
    recent = seen[:, -5:]
    count = recent.sum(1).clamp_min(1.0)
    slowness = recent * torch.exp(-rates[:, -5:])  # seconds per megabit
    harmonic = slowness.sum(1) / count
    worst = (seen * torch.exp(-rates)).amax(1)
    last = torch.exp(-rates[:, -1])
    means, variances = history.memory[:, 0:6:2], history.memory[:, 1:6:2]
    low, longest, fading, jumps, elapsed_s = history.memory[:, -5:].unbind(1)
    buffer_s, chunk_s = history.buffer_s, player.chunk_s
    present = player.present.to(rates.dtype)

    context = [
        seen * (rates - top[:, None]).clamp(-6.0, 6.0) * 0.5,
        seen * history.delays * 0.5,
        seen,
        (means - top[:, None]).clamp(-6.0, 6.0) * 0.5,
        (means - lowest[:, None]).clamp(-6.0, 6.0) * 0.5,
        variances.sqrt(),
        torch.stack(
            [
                (low - top).clamp(-6.0, 6.0) * 0.5,
                (low - lowest).clamp(-6.0, 6.0) * 0.5,
                torch.log1p(longest) * 0.5,
                torch.log1p(fading) * 0.5,
                jumps,
                torch.log1p(elapsed_s) * 0.3,
                torch.log1p(buffer_s) * 0.5,
                buffer_s / 30.0,
                buffer_s / player.cap_s,
                torch.log1p(buffer_s / chunk_s) * 0.5,
                torch.log(chunk_s),
                torch.log(player.cap_s / 30.0),
                torch.log(player.stall_penalty + 1e-2) * 0.5,
                player.caution.clamp_max(1.0),
                torch.log1p((player.caution - 1.0).clamp_min(0.0)) * 0.5,
                torch.log1p(player.smooth_penalty),
                (top - lowest) * 0.5,
                present.sum(1) / 8.0,
                offer.last_utility,
                (offer.remaining / 40.0).clamp_max(1.0),
                torch.exp(-offer.remaining / 4.0),
            ],
            dim=1,
        ),
        torch.log(offer.ahead.clamp(0.1, 10.0)),
    ]
    return torch.cat(context, dim=1), _rungs(player, offer, history, top, harmonic, worst, last, means, present)


def _rungs(
    player: Player,
    offer: Offer,
    history: History,
    top: Tensor,
    harmonic: Tensor,
    worst: Tensor,
    last: Tensor,
    means: Tensor,
    present: Tensor,
) -> Tensor:
    buffer_s, chunk_s = history.buffer_s[:, None], player.chunk_s[:, None]
    sizes, utilities = offer.sizes_mbit, offer.utilities
    took_s = [sizes * slowness[:, None] for slowness in (harmonic, worst, last)]
    long_s = sizes * torch.exp(-means[:, -1:])
    nominal = torch.log(player.rates_mbps)
    change = utilities - offer.last_utility[:, None]
    # By slices: ONNX knows neither diff nor writing into a tensor.
    gap = torch.cat([utilities[:, 1:], utilities[:, -1:]], dim=1) - utilities
    above = torch.cat([present[:, 1:], torch.zeros_like(present[:, :1])], dim=1)
    columns = [
        *(0.5 * torch.log(each + 1e-2) for each in (*took_s, long_s)),
        *(torch.tanh((buffer_s - each) / 10.0) for each in (*took_s, long_s)),
        *(torch.tanh((buffer_s - each) / chunk_s) for each in took_s[:2]),
        *(torch.tanh((each - chunk_s) / chunk_s) for each in (*took_s[:2], long_s)),
        (nominal + torch.log(harmonic)[:, None]).clamp(-6.0, 6.0) * 0.5,
        (nominal - means[:, -1:]).clamp(-6.0, 6.0) * 0.5,
        (nominal - top[:, None]).clamp(-6.0, 6.0) * 0.5,
        torch.log(sizes / (player.rates_mbps * chunk_s)).clamp(-3.0, 3.0),
        utilities,
        change,
        change.abs() * player.smooth_penalty[:, None],
        player.stall_penalty[:, None].clamp_max(4.0) * (took_s[0] - buffer_s).clamp(0.0, 4.0),
        player.stall_penalty[:, None].clamp_max(4.0) * (took_s[1] - buffer_s).clamp(0.0, 4.0),
        gap * above,
        above,
    ]
    return torch.stack(columns, dim=2) * present[:, :, None]
