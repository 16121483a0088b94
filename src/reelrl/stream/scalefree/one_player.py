"""The scale-free policy for one player at a time, in plain numbers: a service decides for many, but each by itself.

The same formulas as `features` and `network`, which are for a million players at once: on one, torch spends its time
between them. The tests hold the scores equal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reelrl.stream.controllers.protocol import shares, view
from reelrl.stream.scalefree.features import AHEAD, HISTORY, MEMORY, MEMORY_S

if TYPE_CHECKING:
    from reelrl.stream.controllers.protocol import EpisodeInfo, Observation
    from reelrl.stream.scalefree.controller import ScaleFree

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]


class OnePlayer:
    """What `ScaleFree` decides, several times as fast."""

    privileged = False

    def __init__(self, original: ScaleFree) -> None:
        self._original = original
        self._net: dict[str, Floats] = {
            name: tensor.detach().cpu().numpy() for name, tensor in original.policy.actor.state_dict().items()
        }

    def reset(self, seed: int, episode: EpisodeInfo) -> None:
        """Take the video, the viewer's wishes and the buffer; forget the last session's link."""
        self._original.reset(seed, episode)  # it knows what it was trained on, and says so
        self._wishes = self._original.wishes
        self._video = episode.video
        self._rates = np.zeros(HISTORY)
        self._delays = np.zeros(HISTORY)
        self._seen = np.zeros(HISTORY)
        self._memory = [0.0] * MEMORY

    def act(self, observation: Observation) -> int:
        """The rung."""
        seen = view(observation, self._video)
        rate, delay, buffer = (float(observation[row, -1]) for row in (2, 3, 1))
        self._measure(rate * 8.0, delay * 10.0)
        chunk = min(seen.next_chunk, self._video.chunks - 1)
        self._scores = self._scored(*self._features(chunk, seen.last_rung, buffer * 10.0))
        return int(self._scores.argmax())

    def reason(self) -> dict[str, Any]:
        """How much it liked each rung."""
        return {"preferences": shares(self._scores)}

    def _measure(self, rate_mbps: float, delay_s: float) -> None:
        """One more download: `features.measured`."""
        rate = math.log(min(max(rate_mbps, 1e-3), 1e5))
        delay_s = min(max(delay_s, 1e-2), 1e4)
        first = self._seen[-1] == 0
        jump = 0.0 if first else abs(rate - float(self._rates[-1]))
        lowest, longest, fading, jumps, elapsed_s = self._memory[-5:]
        means: list[float] = []
        for index, span_s in enumerate(MEMORY_S):
            share = 1.0 - math.exp(-delay_s / span_s)
            mean, variance = self._memory[2 * index : 2 * index + 2]
            off = rate - mean
            means += [rate, 0.0] if first else [mean + share * off, (1.0 - share) * (variance + share * off * off)]
        if first:
            self._memory = [*means, rate, delay_s, delay_s, 0.0, delay_s]
        else:
            recent = [min(lowest, rate), max(longest, delay_s), max(0.94 * fading, delay_s)]
            self._memory = [*means, *recent, jumps + 0.2 * (jump - jumps), elapsed_s + delay_s]
        self._rates = np.append(self._rates[1:], rate)
        self._delays = np.append(self._delays[1:], math.log(delay_s))
        self._seen = np.append(self._seen[1:], 1.0)

    def _features(self, chunk: int, last_rung: int, buffer_s: float) -> tuple[Floats, Floats]:
        """Context and rungs: `features.features`."""
        wishes, seen, rates = self._wishes, self._seen, self._rates
        top, lowest = math.log(wishes.rates_mbps[-1]), math.log(wishes.rates_mbps[0])
        means, variances = np.array(self._memory[0:6:2]), np.array(self._memory[1:6:2])
        low, longest, fading, jumps, elapsed_s = self._memory[-5:]
        stall = wishes.stall_penalty * wishes.caution_at(math.sqrt(self._memory[5]))
        utilities = wishes.utilities[chunk]
        last_utility = float(wishes.utilities[max(chunk - 1, 0), last_rung])
        remaining = self._video.chunks - chunk
        numbers = [
            0.5 * _near(low - top),
            0.5 * _near(low - lowest),
            0.5 * math.log1p(longest),
            0.5 * math.log1p(fading),
            jumps,
            0.3 * math.log1p(elapsed_s),
            0.5 * math.log1p(buffer_s),
            buffer_s / 30.0,
            buffer_s / wishes.cap_s,
            0.5 * math.log1p(buffer_s / wishes.chunk_s),
            math.log(wishes.chunk_s),
            math.log(wishes.cap_s / 30.0),
            0.5 * math.log(stall + 1e-2),
            math.log1p(wishes.smooth_penalty),
            0.5 * (top - lowest),
            len(utilities) / 8.0,
            last_utility,
            min(remaining / 40.0, 1.0),
            math.exp(-remaining / 4.0),
        ]
        ahead = wishes.relative_sizes[chunk + 1 : chunk + 1 + AHEAD]
        parts = [
            0.5 * seen * (rates - top).clip(-6.0, 6.0),
            0.5 * seen * self._delays,
            seen,
            0.5 * (means - top).clip(-6.0, 6.0),
            0.5 * (means - lowest).clip(-6.0, 6.0),
            np.sqrt(variances),
            numbers,
            np.log(ahead.clip(0.1, 10.0)),
        ]
        rungs = self._rungs(chunk, utilities, last_utility, buffer_s, stall, float(means[-1]), top)
        return np.concatenate(parts).astype(np.float32), rungs

    def _rungs(
        self,
        chunk: int,
        utilities: Numbers,
        last_utility: float,
        buffer_s: float,
        stall: float,
        long_mean: float,
        top: float,
    ) -> Floats:
        wishes, seen, chunk_s = self._wishes, self._seen, self._wishes.chunk_s
        slowness = seen * np.exp(-self._rates)  # seconds per megabit
        harmonic = float(slowness[-5:].sum() / max(seen[-5:].sum(), 1.0))
        sizes = self._video.sizes_bytes[chunk] * 8e-6
        by = np.array([harmonic, slowness.max(), slowness[-1], math.exp(-long_mean)])
        took_s = by[:, None] * sizes  # by the mean rate, the worst, the last, that of minutes
        nominal = np.log(wishes.rates_mbps)
        change = utilities - last_utility
        above = np.ones(len(sizes))
        above[-1] = 0.0
        late = min(stall, 4.0) * (took_s[:2] - buffer_s).clip(0.0, 4.0)
        columns = [
            *(0.5 * np.log(took_s + 1e-2)),
            *np.tanh((buffer_s - took_s) / 10.0),
            *np.tanh((buffer_s - took_s[:2]) / chunk_s),
            *np.tanh((took_s[[0, 1, 3]] - chunk_s) / chunk_s),
            0.5 * (nominal + math.log(harmonic)).clip(-6.0, 6.0),
            0.5 * (nominal - long_mean).clip(-6.0, 6.0),
            0.5 * (nominal - top).clip(-6.0, 6.0),
            np.log(sizes / (wishes.rates_mbps * chunk_s)).clip(-3.0, 3.0),
            utilities,
            change,
            np.abs(change) * wishes.smooth_penalty,
            *late,
            np.diff(utilities, append=utilities[-1]) * above,
            above,
        ]
        return np.stack(columns, axis=1).astype(np.float32)

    def _scored(self, context: Floats, rungs: Floats) -> Floats:
        """`ScaleFreePolicy.scores` of a ladder without padding."""
        net = self._net
        summary = context
        for layer in ("context.0", "context.2", "context.4"):
            summary = _silu(net[f"{layer}.weight"] @ summary + net[f"{layer}.bias"])
        each = _silu(rungs @ net["rung.weight"].T + (net["rung.bias"] + net["rung_context.weight"] @ summary))
        together = np.concatenate([each.mean(axis=0), each.max(axis=0)])
        mixed = _silu(each @ net["mix.weight"].T + (net["mix.bias"] + net["mix_all.weight"] @ together))
        scores: Floats = mixed @ net["score.weight"][0] + net["score.bias"][0]
        return scores


def _silu(values: Floats) -> Floats:
    activated: Floats = values * (0.5 + 0.5 * np.tanh(0.5 * values))
    return activated


def _near(value: float) -> float:
    return min(max(value, -6.0), 6.0)
