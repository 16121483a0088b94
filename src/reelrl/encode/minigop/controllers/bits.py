"""What pictures will cost in low delay, before any is coded.

Bits go into what prediction leaves (each frame's inter energy) and into pictures coded afresh: key frames, the first
after a cut, and pictures that stay but are made finer. Per level and pixel both cost about the same in all clips;
what one scene costs more or less is learned from its mini-GOPs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Octaves of bits per level and pixel at QP 40, and what a QP step takes from them. Train clips, by minigop_facts.py:
# moving -4.8 to -6.2 (0.05 to 0.28); afresh -2.4 to -2.9 (0.07 to 0.08), drawings, games -4.1 to -5.1 (0.02 to 0.05).
_MOVING, _MOVING_PER_QP = -5.8, 0.125
_FRESH, _FRESH_PER_QP = -2.5, 0.07
_QP = 40
STILL, LEAST_INTRA = 0.3, 1.0  # levels: something is always coded

_NEWS = 0.5  # weight of the last mini-GOP in a correction
_QUIET = 0.5  # energy, in levels, of a frame that says half of what others do about their cost
_FARTHEST = 3.0  # octaves that one mini-GOP may be off
_KEPT_MOVING, _KEPT_FRESH = 0.3, 0.8  # of the corrections, behind a cut


@dataclass(frozen=True)
class Pictures:
    """What a mini-GOP holds.

    frames        that are predicted
    energy        mean inter energy of these, in levels
    intra         of a picture
    afresh        whether one is coded without a predecessor
    refined_from  QP that the others were left at, else: making a still picture finer is coding it again
    """

    frames: int
    energy: float
    intra: float
    afresh: bool
    refined_from: float = 0.0


class BitsModel:
    """Expected bits, corrected by what came out."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels
        self._moving_off = self._fresh_off = 0.0  # octaves above what is usual

    def moving(self, frames: float, energy: float, qp: float) -> float:
        """Bits of what prediction leaves in so many frames."""
        levels = frames * (energy + STILL)
        return self._pixels * levels * math.exp2(_MOVING + self._moving_off - _MOVING_PER_QP * (qp - _QP))

    def fresh(self, pictures: Pictures, qp: float) -> float:
        """Bits of the picture that is coded without a predecessor, or made finer."""
        bits = self._afresh(pictures.intra, qp)
        return bits if pictures.afresh else max(bits - self._afresh(pictures.intra, pictures.refined_from), 0.0)

    def bits(self, pictures: Pictures, qp: float) -> float:
        return self.moving(pictures.frames, pictures.energy, qp) + self.fresh(pictures, qp)

    def learn(self, pictures: Pictures, qp: float, bits: int, *, first: bool) -> None:
        """Correct the expectation by what a mini-GOP took; the first one counts in full."""
        moving, fresh = self.moving(pictures.frames, pictures.energy, qp), self.fresh(pictures, qp)
        off = math.log2(max(bits, 1) / (moving + fresh))
        off = (1.0 if first else _NEWS) * min(max(off, -_FARTHEST), _FARTHEST)
        if pictures.afresh:
            share = fresh / (moving + fresh)
            self._fresh_off += off * share
            self._moving_off += off * (1 - share)
        else:
            self._moving_off += off * pictures.energy / (pictures.energy + _QUIET)

    def new_scene(self) -> None:
        """Behind a cut most of what was learned is void."""
        self._moving_off *= _KEPT_MOVING
        self._fresh_off *= _KEPT_FRESH

    def _afresh(self, intra: float, qp: float) -> float:
        energy = intra + LEAST_INTRA
        return self._pixels * energy * math.exp2(_FRESH + self._fresh_off - _FRESH_PER_QP * (qp - _QP))
