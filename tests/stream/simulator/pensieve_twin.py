"""Pensieve's simulator written down a second time, from its description, sharing no line with the package.

One method walks the trace with Pensieve's own variables: a pointer to the current line, the time of the last event,
Mbit/s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class PensieveTwin:
    def __init__(
        self,
        times: list[list[float]],
        mbps: list[list[float]],
        sizes: list[list[int]],
        rng: np.random.RandomState | None,
    ) -> None:
        self.times, self.mbps, self.sizes, self.rng = times, mbps, sizes, rng
        self.which = -1
        self.new_video()

    def new_video(self) -> None:
        if self.rng is not None:
            self.which = int(self.rng.randint(len(self.times)))
            self.ptr = int(self.rng.randint(1, len(self.mbps[self.which])))
        else:
            self.which = (self.which + 1) % len(self.times)
            self.ptr = 1
        self.t = self.times[self.which]
        self.bw = self.mbps[self.which]
        self.last_time = self.t[self.ptr - 1]
        self.counter = 0
        self.buffer_ms = 0.0

    def move_on(self) -> None:
        self.last_time = self.t[self.ptr]
        self.ptr += 1
        if self.ptr >= len(self.bw):
            self.ptr = 1
            self.last_time = 0

    def get_video_chunk(self, quality: int) -> tuple[Any, ...]:
        size = self.sizes[quality][self.counter]
        delay = 0.0
        got = 0.0
        while True:
            rate = self.bw[self.ptr] * 1000000.0 / 8.0
            span = self.t[self.ptr] - self.last_time
            payload = rate * span * 0.95
            if got + payload > size:
                part = (size - got) / rate / 0.95
                delay += part
                self.last_time += part
                break
            got += payload
            delay += span
            self.move_on()
        delay *= 1000.0
        delay += 80
        if self.rng is not None:
            delay *= self.rng.uniform(0.9, 1.1)
        stall = max(delay - self.buffer_ms, 0.0)
        self.buffer_ms = max(self.buffer_ms - delay, 0.0)
        self.buffer_ms += 4000.0
        sleep = 0.0
        if self.buffer_ms > 60000.0:
            over = self.buffer_ms - 60000.0
            sleep = math.ceil(over / 500.0) * 500.0
            self.buffer_ms -= sleep
            while True:
                span = self.t[self.ptr] - self.last_time
                if span > sleep / 1000.0:
                    self.last_time += sleep / 1000.0
                    break
                sleep -= span * 1000.0
                self.move_on()
        buffer_ms = self.buffer_ms
        self.counter += 1
        remain = 48 - self.counter
        end = self.counter >= 48
        if end:
            self.new_video()
        following = [self.sizes[q][self.counter] for q in range(len(self.sizes))]
        return delay, sleep, buffer_ms / 1000.0, stall / 1000.0, size, following, end, remain
