"""The network that chooses rungs: the 6 x 8 state in scale-free form, two small towers.

Rates and sizes enter as logarithms, and as the seconds that each rung of the next chunk would take at recent speeds:
what the decision turns on, whatever the ladder. Eight chunks are half a minute; what a session has been through before
is kept in six numbers, a ninth column (`remember`). The critic's tower also sees `hints`, the link's future rates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reelrl.stream.simulator.observation import S_INFO

# Windows ahead of now, in seconds, whose mean rate the critic sees while it learns.
HINT_EDGES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0)
HINTS = len(HINT_EDGES_S) - 1
MEMORY = 6
LONG_DOWNLOAD_S = 6.0


def remember(memory: Tensor, state: Tensor) -> Tensor:
    """The session's memory (batch, 6) after one more state: a first state, with one measurement, starts it anew.

    Lowest rate, slow mean and variance of the rate (logarithms), longest download, a fading mark of long downloads, and
    how much the rate jumps from chunk to chunk.
    """
    seen = state[:, 3] > 0
    first = (seen.sum(1) == 1)[:, None]
    rate = torch.log(state[:, 2, -1] * 8.0 + 1e-3)
    jump = torch.where(seen[:, -2], (rate - torch.log(state[:, 2, -2] * 8.0 + 1e-3)).abs(), 0.0)
    delay_s = state[:, 3, -1] * 10.0
    delay = torch.log(delay_s + 1e-2)
    nothing = torch.zeros_like(rate)
    fresh = torch.stack([rate, rate, nothing, delay, nothing, nothing], dim=1)
    lowest, mean, variance, longest, trouble, jumps = torch.where(first, fresh, memory).unbind(1)
    return torch.stack(
        [
            torch.minimum(lowest, rate),
            mean + 0.1 * (rate - mean),
            variance + 0.1 * ((rate - mean).square() - variance),
            torch.maximum(longest, delay),
            torch.maximum(0.93 * trouble, (delay_s > LONG_DOWNLOAD_S).to(rate.dtype)),
            jumps + 0.2 * (jump - jumps),
        ],
        dim=1,
    )


def with_memory(state: Tensor, memory: Tensor) -> Tensor:
    """What the network reads: the state with the memory as its last column."""
    return torch.cat([state, memory[:, :, None]], dim=2)


def features(observation: Tensor, rungs: int) -> Tensor:
    """(batch, 6, columns + 1) -> (batch, n), every entry of order one."""
    state, memory = observation[:, :, :-1], observation[:, :, -1]
    rate_share, buffer, throughput, delay = state[:, 0], state[:, 1], state[:, 2], state[:, 3]
    seen = (delay > 0).to(state.dtype)
    log_rate = seen * torch.log(throughput * 8.0 + 1e-3)
    log_delay = seen * torch.log(delay * 10.0 + 1e-2)
    sizes_mb = state[:, 4, :rungs]
    count = seen[:, -5:].sum(1, keepdim=True).clamp_min(1.0)
    slowness = seen / (throughput + 1e-4)  # seconds per megabyte
    mean = slowness[:, -5:].sum(1, keepdim=True) / count
    worst = slowness.amax(1, keepdim=True)
    last = slowness[:, -1:]
    took = torch.log(torch.cat([sizes_mb * mean, sizes_mb * worst, sizes_mb * last], dim=1) + 1e-2)
    now = buffer[:, -1:] * 10.0
    # How far each rung's download would reach into the buffer, squashed: negative means a stall.
    margin = torch.tanh((now - sizes_mb * mean) / 10.0)
    margin_worst = torch.tanh((now - sizes_mb * worst) / 10.0)
    spread = log_rate - (log_rate.sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp_min(1.0)) * seen
    return torch.cat(
        [
            rate_share,
            buffer / 3.0,
            torch.log1p(now),
            0.5 * log_rate,
            spread,
            0.5 * log_delay,
            torch.log(sizes_mb + 1e-2),
            0.5 * took,
            margin,
            margin_worst,
            state[:, 5, -1:],
            seen,
            0.5 * memory[:, :2],
            memory[:, 2:3].sqrt(),
            0.5 * memory[:, 3:4],
            memory[:, 4:],
            0.5 * (torch.log(sizes_mb * 8.0 + 1e-3) - memory[:, :1]),
        ],
        dim=1,
    )


def feature_count(rungs: int, columns: int) -> int:
    """Entries that `features` returns."""
    return features(torch.zeros(1, S_INFO, columns + 1), rungs).shape[1]


class AbrPolicy(nn.Module):
    """Actor and critic. `logits` is all that a trained controller needs."""

    def __init__(self, rungs: int, columns: int = 8, hidden: int = 128, hints: int = HINTS) -> None:
        super().__init__()
        self.rungs, self.columns, self.hidden = rungs, columns, hidden
        count = feature_count(rungs, columns)
        self.actor = _tower(count, hidden, rungs, last_gain=0.01)
        self.critic = _tower(count + hints, hidden, 1, last_gain=1.0)
        self.spread = nn.Sequential(nn.Linear(count, 32), nn.SiLU(), nn.Linear(32, 1))

    def logits(self, observations: Tensor) -> Tensor:
        """Preference for each rung, (batch, rungs)."""
        logits: Tensor = self.actor(features(observations, self.rungs))
        return logits

    def value(self, observations: Tensor, hints: Tensor) -> Tensor:
        """Expected return, compressed, (batch,)."""
        value: Tensor = self.critic(torch.cat([features(observations, self.rungs), hints], dim=1))
        return value[:, 0]

    def log_spread(self, observations: Tensor) -> Tensor:
        """Logarithm of the usual size of an advantage here, (batch,)."""
        spread: Tensor = self.spread(features(observations, self.rungs))
        return spread[:, 0]


def make_policy(rungs: int, hidden: int, seed: int, device: torch.device, columns: int = 8) -> AbrPolicy:
    """A fresh policy whose weights depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AbrPolicy(rungs, columns, hidden).to(device)


def _tower(inputs: int, hidden: int, outputs: int, last_gain: float) -> nn.Sequential:
    layers = [nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)]
    for layer, gain in zip(layers[::2], (1.4, 1.4, last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)  # type: ignore[arg-type]
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers)
