"""A bitrate held from outside: a QP for each frame so that a leaky bucket neither floods nor runs dry.

Encoders ignore superblock maps and picture QPs while they hold a bitrate themselves. Whoever wants both holds the
bitrate with this loop over fixed-QP coding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from reelrl.encode.codecs.packet import FrameType
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

_QP_PER_OCTAVE = 9.0  # so many QP steps halve the bits, roughly, over the range people use
_MEMORY = 0.5  # share of the old complexity estimate that survives a frame of the same kind
_LARGEST_FALL, _LARGEST_RISE = 3.0, 10.0  # QP change from one inter frame to the next: brake harder than you speed up
_KEY_SHARE = 8.0  # bits a key frame may take, in average frames
_FIRST_GUESS_BPP = 0.55  # bits per pixel of a key frame at QP 20, before anything was measured


@dataclass
class FrameQpBucket:
    """Chooses frame QPs to spend `target_kbps`, and takes back a surplus within `window_s`."""

    target_kbps: float
    fps: Fraction
    pixels: int
    window_s: float = 1.0
    lowest_qp: int = 8
    highest_qp: int = 63
    surplus_bits: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.target_kbps > 0:
            raise ConfigError(f"target_kbps = {self.target_kbps}; a bitrate is above zero")
        # Complexity: log2 of the bits a frame would take at QP 0.
        key = math.log2(self.pixels * _FIRST_GUESS_BPP) + 20 / _QP_PER_OCTAVE
        self._complexity = {True: key, False: key - 3.5}
        self._last_inter: float | None = None

    @property
    def frame_bits(self) -> float:
        """Bits of an average frame."""
        return self.target_kbps * 1000 / float(self.fps)

    def next_qp(self, *, key: bool) -> int:
        """Quantiser for the coming frame."""
        payback = self.surplus_bits / (self.window_s * float(self.fps))
        wanted = (_KEY_SHARE if key else 1.0) * max(self.frame_bits - payback, 0.2 * self.frame_bits)
        qp = _QP_PER_OCTAVE * (self._complexity[key] - math.log2(wanted))
        if not key and self._last_inter is not None:
            qp = min(max(qp, self._last_inter - _LARGEST_FALL), self._last_inter + _LARGEST_RISE)
        if not key:
            self._last_inter = min(max(qp, self.lowest_qp), self.highest_qp)
        return round(min(max(qp, self.lowest_qp), self.highest_qp))

    def update(self, size_bytes: int, qp: int, *, key: bool) -> None:
        """Learn what the last frame cost."""
        bits = 8 * max(size_bytes, 1)
        seen = math.log2(bits) + qp / _QP_PER_OCTAVE
        self._complexity[key] = _MEMORY * self._complexity[key] + (1 - _MEMORY) * seen
        # Bits saved in quiet times may be spent later, but no more than one window's worth.
        idle = -self.window_s * self.target_kbps * 1000
        self.surplus_bits = max(self.surplus_bits + bits - self.frame_bits, idle)


LeakyBucket = FrameQpBucket  # its name in version 0.1


class FrameQp:
    """The QP of frame after frame: the settings' own, `shifts` QP steps from it, or one that holds `target_kbps`."""

    def __init__(
        self, settings: EncoderSettings, target_kbps: float | None, shifts: Sequence[int] | None = None
    ) -> None:
        self._settings, self._shifts = settings, shifts
        self._bucket: FrameQpBucket | None = None
        if target_kbps is not None:
            self._bucket = FrameQpBucket(target_kbps, settings.fps, settings.width * settings.height)

    def next(self, number: int) -> int | None:
        """What to send frame `number` with; None leaves the QP to the settings."""
        keyint = self._settings.keyint
        key = number == 0 or (keyint > 0 and number % keyint == 0)
        if self._shifts is not None:
            return min(max(self._settings.qp + self._shifts[number], 1), 63)
        return self._bucket.next_qp(key=key) if self._bucket is not None else None

    def update(self, packet: Packet) -> None:
        """Learn what the frame cost."""
        if self._bucket is not None:
            self._bucket.update(packet.size, packet.qp, key=packet.frame_type == FrameType.KEY)
