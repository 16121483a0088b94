"""dash.js's default rules and its L2A a second time, plainly, step by step as dash.js 5 runs them: kbit/s, seconds."""

from __future__ import annotations

import math
from typing import Any


class _Averages:
    """Two moving averages of the throughput; the lower one counts."""

    def __init__(self, weight_per_s: float) -> None:
        self.weight_per_s = weight_per_s
        self.estimates = {3.0: 0.0, 8.0: 0.0}
        self.total_s = 0.0

    def add(self, kbps: float, took_s: float) -> None:
        weight_s = self.weight_per_s * took_s
        for half_life_s, estimate in self.estimates.items():
            alpha = math.pow(0.5, weight_s / half_life_s)
            self.estimates[half_life_s] = alpha * estimate + (1.0 - alpha) * kbps
        self.total_s += weight_s

    def kbps(self) -> float:
        return min(e / (1.0 - math.pow(0.5, self.total_s / half)) for half, e in self.estimates.items())


def _best_for(kbps: list[float], limit: float) -> int:
    best = 0
    for rung, rate in enumerate(kbps):
        if rate <= limit:
            best = rung
    return best


class SlowDashJs:
    """Told of each download as it happens; asked for the next rung."""

    def __init__(self, kbps: list[float], chunk_s: float) -> None:
        self.kbps, self.chunk_s = kbps, chunk_s
        self.throughput = _Averages(1.5)
        self.utilities = [math.log(rate) - math.log(kbps[0]) + 1.0 for rate in kbps]
        self.gp = (self.utilities[-1] - 1.0) / (max(18.0, 10.0 + 2.0 * len(kbps)) / 10.0 - 1.0)
        self.vp = 10.0 / self.gp
        self.bola_decides = self.steady = False
        self.placeholder_s = 0.0
        self.segments = 0
        self.switches: list[tuple[int, int]] = []

    def downloaded(self, rung: int, observation: Any, info: dict[str, float], request_buffer_s: float) -> None:
        self.segments += 1
        self.level_s, self.last = float(observation[1, -1]) * 10.0, rung
        took_s = float(observation[3, -1]) * 10.0
        self.throughput.add(float(observation[2, -1]) * 8000.0, took_s)
        if not self.steady:
            return
        if took_s > request_buffer_s:  # the event "buffer empty"
            self.placeholder_s = 0.0
        self.placeholder_s *= 0.99
        self.placeholder_s = min(self.placeholder_s, max(0.0, self._most(rung) - request_buffer_s))
        self.placeholder_s += info["sleep_ms"] / 1000.0  # the time between that download and this question

    def rung(self) -> int:
        threshold_s = 9.0 if self.bola_decides else 18.0
        self.bola_decides = self.level_s >= threshold_s
        sustained = _best_for(self.kbps, 0.9 * self.throughput.kbps())
        requests = [self._bola(sustained) if self.bola_decides else sustained]
        if self.segments > 2:
            bitrate = 0.7 * self.throughput.kbps() * self.level_s / self.chunk_s
            requests.append(_best_for(self.kbps, bitrate))
        requests.append(self._switch_history())
        chosen = min(requests)
        self.switches = [*self.switches, (self.last, chosen)][-8:]
        return chosen

    def _most(self, rung: int) -> float:
        return self.vp * (self.utilities[rung] + self.gp)

    def _least(self, rung: int) -> float:
        least = 0.0
        for lower in range(rung):
            rate, other = self.kbps[rung], self.kbps[lower]
            between = (rate * self.utilities[lower] - other * self.utilities[rung]) / (rate - other)
            least = max(least, self.vp * (self.gp + between))
        return least

    def _bola(self, sustained: int) -> int:
        if not self.steady:
            self.placeholder_s = max(0.0, self._least(sustained) - self.level_s)
            self.steady = self.level_s >= self.chunk_s
            return sustained
        effective_s = self.level_s + self.placeholder_s
        scores = [
            (self.vp * (utility - 1.0 + self.gp) - effective_s) / rate
            for utility, rate in zip(self.utilities, self.kbps, strict=True)
        ]
        rung = max(range(len(scores)), key=lambda each: (scores[each], each))
        if rung > self.last and rung > sustained:
            rung = max(sustained, self.last)
        delay_s = max(0.0, effective_s - self._most(rung))
        self.placeholder_s -= min(delay_s, self.placeholder_s)
        return rung

    def _switch_history(self) -> int:
        drops = stays = 0
        for rung in range(len(self.kbps)):
            here = [after < before for before, after in self.switches if before == rung]
            if not here:
                continue
            drops, stays = drops + sum(here), stays + len(here) - sum(here)
            too_many = drops > 0 if stays == 0 else drops / stays > 0.075
            if drops + stays >= 8 and too_many:
                return rung - 1 if rung > 0 and any(here) else rung
        return len(self.kbps) - 1


class SlowL2a:
    """All written out; the multiplier as the paper has it (dash.js counts the weights' last step twice)."""

    def __init__(self, kbps: list[float], chunk_s: float) -> None:
        self.kbps, self.chunk_s = kbps, chunk_s
        self.throughput = _Averages(1.0)
        self.weights: list[float] | None = None
        self.cautious = math.pow(4.0, 0.99)
        self.alpha = max(4.0, self.cautious * math.sqrt(4.0))
        self.multiplier = self.cautious

    def downloaded(self, rung: int, observation: Any, _info: dict[str, float], _request_buffer_s: float) -> None:
        self.last, self.level_s = rung, float(observation[1, -1]) * 10.0
        self.newest_kbps = float(observation[2, -1]) * 8000.0
        self.throughput.add(self.newest_kbps, float(observation[3, -1]) * 10.0)

    def rung(self) -> int:
        if self.weights is None:
            start = _best_for(self.kbps, 0.9 * self.throughput.kbps())
            if self.level_s >= 1.5:
                self.weights = [1.0 if rung == start else 0.0 for rung in range(len(self.kbps))]
            return start
        carried, moved = max(self.newest_kbps, 1.0), []
        for rate, weight in zip(self.kbps, self.weights, strict=True):
            sign = -1.0 if rate > carried else 1.0
            gradient = (self.multiplier + self.cautious) * (rate / carried)
            moved.append(weight + sign * (self.chunk_s / (2.0 * self.alpha)) * gradient)
        self.weights = _projected(moved)
        mean = sum(rate * weight for rate, weight in zip(self.kbps, self.weights, strict=True))
        self.multiplier = max(0.0, self.multiplier - self.chunk_s + self.chunk_s * mean / carried)
        distances = [abs(rate - mean) for rate in self.kbps]
        rung = distances.index(min(distances))
        if rung > self.last and self.kbps[self.last + 1] <= carried:
            rung = self.last + 1
        if self.kbps[rung] >= carried:
            self.multiplier = 2.0 * max(self.cautious, self.multiplier)
        return rung


def _projected(point: list[float]) -> list[float]:
    """Chen and Ye, 2011: from the largest entry down, until the shift leaves the next one at zero."""
    ordered = sorted(point, reverse=True)
    total, shift = 0.0, 0.0
    for count, value in enumerate(ordered, start=1):
        total += value
        shift = (total - 1.0) / count
        if count == len(ordered) or shift >= ordered[count]:
            break
    return [max(value - shift, 0.0) for value in point]
