"""When each picture of a video is shown: at a constant rate or not, from wherever the file begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Self

_LARGEST_DENOMINATOR = 1001  # of an average frame rate
_CLOSE = 0.005  # relative: containers round their rates, and their times


@dataclass(frozen=True)
class Timing:
    """`starts` of the pictures in display order and the `last` one's duration, in units of `time_base` seconds."""

    time_base: Fraction
    starts: Sequence[int]
    last: int

    @classmethod
    def from_packets(cls, time_base: Fraction, starts: Sequence[int], last: int) -> Self:
        """Times as packets carry them, in any order; two pictures at one time are moved a tick apart."""
        ordered = sorted(starts)
        for number, (before, start) in enumerate(pairwise(ordered), 1):
            ordered[number] = max(start, before + 1, ordered[number - 1] + 1)
        if last <= 0:
            last = ordered[-1] - ordered[-2] if len(ordered) > 1 else 1
        return cls(time_base, ordered, last)

    @classmethod
    def constant(cls, fps: Fraction) -> Self:
        """Pictures that follow each other at one rate, from zero, without end."""
        return cls(1 / fps, range(1 << 40), 1)

    @property
    def ticks(self) -> int:
        """From the first picture's start to the last one's end."""
        return self.starts[-1] - self.starts[0] + self.last

    @property
    def end_s(self) -> float:
        return float((self.starts[-1] + self.last) * self.time_base)

    @property
    def average_rate(self) -> Fraction:
        """Pictures per second, over all of them."""
        return (len(self.starts) / (self.ticks * self.time_base)).limit_denominator(_LARGEST_DENOMINATOR)

    def rate(self, stored: Fraction | None) -> Fraction:
        """The rate that a container states, or the average where that would give a wrong duration."""
        if stored and abs(float(self.average_rate / stored) - 1) < _CLOSE:
            return stored
        # In few pictures the rounding of times, and a last one of unknown duration, weigh much.
        if stored and abs(len(self.starts) / stored - self.ticks * self.time_base) * stored < 1.5:
            return stored
        return self.average_rate

    def is_constant(self, fps: Fraction) -> bool:
        """Whether every picture starts where this rate puts it, but for rounding to a tick where ticks are short."""
        if isinstance(self.starts, range):
            return fps == 1 / self.time_base
        step = 1 / (fps * self.time_base)
        first, slack = self.starts[0], min(Fraction(1), step / 4)
        return all(abs(start - first - number * step) <= slack for number, start in enumerate(self.starts))

    def duration(self, number: int) -> int:
        """Ticks from a picture to the next."""
        return self.starts[number + 1] - self.starts[number] if number + 1 < len(self.starts) else self.last

    def first(self, frames: int) -> Timing:
        """The same for the first pictures only."""
        if frames >= len(self.starts):
            return self
        return replace(self, starts=self.starts[:frames], last=self.starts[frames] - self.starts[frames - 1])

    def shifted(self, ticks: int) -> Timing:
        return replace(self, starts=[start + ticks for start in self.starts]) if ticks else self
