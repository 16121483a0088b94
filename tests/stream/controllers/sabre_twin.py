"""BOLA-E written a second time, plainly, as Sabre's paper tells it: milliseconds, kilobits, one step after another."""

from __future__ import annotations

import math
from typing import Any


class SabreBolaE:
    """Told of each download as it happens; asked for the next rung."""

    def __init__(self, kbps: list[float], chunk_s: float, buffer_s: float) -> None:
        self.kbps = kbps
        self.chunk_ms = chunk_s * 1000.0
        self.utility = [math.log(rate) + 1.0 - math.log(kbps[0]) for rate in kbps]
        buffer_ms = max(10_000.0 + 2000.0 * len(kbps), buffer_s * 1000.0)
        self.gp = (self.utility[-1] - 1.0) / (buffer_ms / 10_000.0 - 1.0)
        self.vp = 10_000.0 / self.gp
        self.averages = {3000.0: 0.0, 8000.0: 0.0}
        self.weight_ms = 0.0
        self.placeholder_ms = 0.0
        self.safety = 0.9
        self.count = 0

    def downloaded(self, rung: int, observation: Any, info: dict[str, float], _before_s: float) -> None:
        """The newest chunk, as its player saw it (float32), and whether the player slept afterwards."""
        self.last = rung
        self.level_ms = float(observation[1, -1]) * 10_000.0
        took_ms = float(observation[3, -1]) * 10_000.0
        kbps = float(observation[2, -1]) * 8000.0
        slept_ms = info["sleep_ms"]
        for half_life, average in self.averages.items():
            alpha = math.pow(0.5, took_ms / half_life)
            self.averages[half_life] = alpha * average + (1.0 - alpha) * kbps
        self.weight_ms += took_ms
        self.throughput = min(
            average / (1.0 - math.pow(0.5, self.weight_ms / half_life)) for half_life, average in self.averages.items()
        )
        self.count += 1
        if self.count <= 1:
            return
        level_was = self.level_ms + slept_ms + took_ms
        self.placeholder_ms = min(self.placeholder_ms, max(0.0, self._most(rung) - level_was))
        self.placeholder_ms = max(self.placeholder_ms, self._least(rung) - level_was)
        self.placeholder_ms += slept_ms

    def _least(self, rung: int) -> float:
        level = 0.0
        for lower in range(rung):
            rate, other = self.kbps[rung], self.kbps[lower]
            middle = (rate * self.utility[lower] - other * self.utility[rung]) / (rate - other)
            level = max(level, self.vp * (self.gp + middle))
        return level

    def _most(self, rung: int) -> float:
        return self.vp * (self.utility[rung] + self.gp)

    def _carried(self) -> int:
        rung = 0
        while rung + 1 < len(self.kbps) and self.kbps[rung + 1] / self.throughput <= 1.0:
            rung += 1
        return rung

    def rung(self) -> int:
        """The next decision."""
        carried = self._carried()
        if self.count == 1:
            self.placeholder_ms = max(0.0, self._least(carried) - self.level_ms)
            return carried
        level_ms = self.level_ms + self.placeholder_ms + 1e-3  # of two that are equal the higher
        scores = [(self.vp * (u + self.gp) - level_ms) / rate for u, rate in zip(self.utility, self.kbps, strict=True)]
        rung = scores.index(max(scores))
        if rung > self.last and rung > carried:
            rung = max(self.last, carried) + 1
        delay_ms = self.level_ms + self.placeholder_ms - self._most(rung)
        if delay_ms > 0:
            self.placeholder_ms -= min(delay_ms, self.placeholder_ms)
        sure_kbit = self.safety * self.level_ms * self.throughput
        self.safety = max(self.safety * 0.9, 0.5)
        for lower in range(rung):
            if self.kbps[lower + 1] * self.chunk_ms > sure_kbit:
                rung = lower
                most_ms = max(0.0, self._least(rung) - self.level_ms)
                self.placeholder_ms = min(most_ms, self.placeholder_ms)
                break
        return rung
