"""The link that a live stream is sent over: when each frame arrives, and what is on the screen when it is due."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.content.quality import sse, sse_in_8_bits
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from reelrl.content.frame import Frame


@dataclass(frozen=True)
class Uplink:
    """Carries `kbps[i]` from `edges_s[i]` to `edges_s[i + 1]`; at its end it begins again."""

    edges_s: tuple[float, ...]
    kbps: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.edges_s) != len(self.kbps) + 1 or self.edges_s[0] != 0:
            raise ConfigError(
                f"a link of {len(self.kbps)} rates and {len(self.edges_s)} times; give the time of each change from 0 "
                "on, and the end"
            )
        if min(self.kbps) < 0 or max(self.kbps) <= 0:
            raise ConfigError(f"a link with rates from {min(self.kbps):g} to {max(self.kbps):g} kbit/s carries nothing")

    @classmethod
    def constant(cls, kbps: float) -> Uplink:
        return cls((0.0, 1.0), (kbps,))

    def kbps_at(self, time_s: float) -> float:
        return self.kbps[bisect_right(self.edges_s, time_s % self.edges_s[-1]) - 1]

    def sent_s(self, start_s: float, bits: float) -> float:
        """When the last of the bits is through, if the first goes at `start_s`."""
        period = self.edges_s[-1]
        laps, place = divmod(start_s, period)
        slot = bisect_right(self.edges_s, place) - 1
        while True:
            end, rate = self.edges_s[slot + 1], self.kbps[slot] * 1000
            if rate * (end - place) >= bits and rate > 0:
                return laps * period + place + bits / rate
            bits -= rate * (end - place)
            place, slot = end, slot + 1
            if slot == len(self.kbps):
                laps, place, slot = laps + 1, 0.0, 0


class LiveViewer:
    """Someone at the other end, who sees each frame `buffer_s` after its instant, or what came last if it is late."""

    def __init__(self, link: Uplink, fps: float, buffer_s: float) -> None:
        self.link, self.fps, self.buffer_s = link, fps, buffer_s
        self.delays_s: list[float | None] = []
        self.sse_y: list[int] = []
        self._free_s = 0.0
        self._under_way: deque[tuple[float, Frame]] = deque()
        self._shown: Frame | None = None
        self._watches = False

    def is_sent(self, bits: int | None, source: Frame, picture: Frame | None = None) -> None:
        """The next frame goes out; None bits where it was dropped. With its picture what is seen is measured.

        Frames are sent one after the other. On a link of constant rate a delay is what a leaky bucket holds.
        """
        now_s = len(self.delays_s) / self.fps
        if bits is None:
            self.delays_s.append(None)
        else:
            self._free_s = self.link.sent_s(max(now_s, self._free_s), bits)
            self.delays_s.append(self._free_s - now_s)
            if picture is not None:
                self._under_way.append((self._free_s, picture))
        while self._under_way and self._under_way[0][0] <= now_s + self.buffer_s:
            self._shown = self._under_way.popleft()[1]
        self._watches = self._watches or picture is not None
        if self._watches:
            self.sse_y.append(self._error(source))

    def _error(self, source: Frame) -> int:
        if self._shown is None:  # nothing has arrived: a grey screen
            seen = source.y * 0 + (1 << (source.depth - 1))
            return sse_in_8_bits(sse(source.y, seen.astype(source.y.dtype)), source.depth)
        return sse_in_8_bits(sse(source.y, self._shown.y), source.depth)

    @property
    def late(self) -> int:
        return sum(delay is not None and delay > self.buffer_s for delay in self.delays_s)
