"""How many bits a frame will take at each QP, from its looks and from what frames before it took.

`RuleBits`: the energy of a block against the quantiser's step gives its bits; what is left is learnt on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from reelrl.encode.live.frame_look import OCTAVES
from reelrl.encode.live.qps import QPS
from reelrl.encode.live.standing import StandingPicture
from reelrl.encode.live.structure import LAYERS, LEVELS, is_reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.live.frame_look import FrameLook

# AV1's step in pixel levels doubles every ten QP, within a tenth of an octave from QP 10 to 60.
_LOG2_STEP = QPS / 10 + 1.35


class Curve(NamedTuple):
    """log2_bits  expected at each of `QPS`
    spread        standard deviation of what comes out, in octaves
    lasting       log2 of the bits that frames like it go on taking, once its picture has been made as fine
    finest        QP below which no picture so far says what it would take
    """

    log2_bits: NDArray[np.float64]
    spread: NDArray[np.float64]
    lasting: NDArray[np.float64]
    finest: float = 1.0


class FrameBits(Protocol):
    """What a predictor of bits is asked and told, frame by frame."""

    def predict(self, look: FrameLook, layer: int, *, afresh: bool) -> Curve:
        """The bits of the coming frame; `afresh` where it has no reference or none of use."""
        ...

    def learn(self, qp: int, bits: int) -> None:
        """What that frame took."""
        ...


class Density(NamedTuple):
    """Bits of a pixel: `height` x log2(1 + 2 ** (slope x (log2(energy / step) - start))), and `floor` bits a frame."""

    height: float
    slope: float
    start: float
    floor: float

    def table(self) -> NDArray[np.float64]:
        """Bits of a pixel, by QP and octave of the block's energy."""
        energy = np.arange(OCTAVES) - 3.5
        return self.height * np.log2(1 + 2 ** (self.slope * (energy[None, :] - _LOG2_STEP[:, None] - self.start)))


INTRA = Density(9.4, 0.92, 3.32, 8)
INTER = Density(0.37, 2.0, -1.7, 190)
REFINED = 0.8
"""Of what a picture takes afresh at a QP more than at that of its reference: what making it finer takes.

All fitted to encodes of the development clips (`reel fit live --densities`)."""

_TABLES = {True: INTRA.table(), False: INTER.table()}


class Densities:
    """log2 of the bits as the densities alone say, for frame after frame of a stream."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels
        self._reference_qp = 0.0  # that the picture so far was left at, where it stands still
        self._still = 0.0

    def intra(self, look: FrameLook) -> NDArray[np.float64]:
        """Bits of the whole frame coded afresh, by QP."""
        return np.asarray(INTRA.floor + self._pixels * (_TABLES[True] @ look.intra))

    def changes(self, look: FrameLook, new: float = 0.0) -> NDArray[np.float64]:
        """Bits of what the frame before does not say; what is new counts `new` times as much as coded afresh."""
        changed = _TABLES[False] @ look.inter
        return np.asarray(self._pixels * (changed + new * (_TABLES[True] @ look.new) if new else changed))

    def of(self, look: FrameLook, *, afresh: bool) -> tuple[NDArray[np.float64], ...]:
        """log2 of the bits by QP: coded afresh, as it is to be coded, and of that what lasts."""
        self._still = look.still
        intra = self.intra(look)
        log2_intra: NDArray[np.float64] = np.log2(intra)
        if afresh:
            return log2_intra, log2_intra, log2_intra
        finer = np.maximum(intra - intra[round(self._reference_qp) - 1], 0)
        lasting = INTER.floor + self.changes(look)
        return log2_intra, np.log2(lasting + REFINED * finer), np.log2(lasting)

    def coded(self, qp: int, layer: int, *, afresh: bool, levels: int = LEVELS) -> None:
        """The frame was coded at this QP."""
        if afresh or self._reference_qp == 0:
            self._reference_qp = qp
        elif is_reference(layer, levels):
            # What moves is left at this QP, what stands still at the finest so far.
            self._reference_qp = self._still * min(self._reference_qp, qp) + (1 - self._still) * qp


# Corrections beside those of the layers: of a frame that shows nothing new, of refining, of frames afresh.
_FLOOR, _FINER, _AFRESH = LAYERS, LAYERS + 1, LAYERS + 2
_MEMORY = {True: 0.5, False: 0.6}  # of what was known before a frame, afresh and not
_SPREAD, _MOST_SPREAD = {True: 0.45, False: 0.35}, 0.7  # octaves: to begin with and at least, at most
_SPREAD_MEMORY = 0.85
_LARGEST_CORRECTION, _LARGEST_ERROR = 4.0, 3.0  # octaves
_SURPRISE, _SPILL = 1.0, 0.15  # octaves above what was said; of what is beyond, in what every correction rises
_NEW = 2.0  # times what it takes afresh: what is new beside parts that stand still, which encoders code badly
_REFINED = 0.3  # as REFINED, where the QPs of all parts of the picture are known
_REACHED = 0.3  # of the bits that refining should take: with so many the picture is as fine as its QP says
_STEPS = 12  # QP steps that a picture is made finer by at a time: what more would take nobody knows


class _FrameForecast(NamedTuple):
    """What was said of the frame that is being coded; `parts` are bits by QP, each under a correction in `kinds`."""

    log2_bits: NDArray[np.float64]
    parts: tuple[NDArray[np.float64], ...]
    kinds: tuple[int, ...]
    changes: NDArray[np.float64]
    still: float
    layer: int
    afresh: bool


class RuleBits:
    """The densities in parts, each with a correction that is kept up to date.

    A frame takes what changes, what refining takes where the picture stands still, and a little in any case. Many
    frames that show nothing new say nothing of the next one that does, so each part learns from frames that it is in.
    """

    def __init__(self, pixels: int) -> None:
        self._densities = Densities(pixels)
        self._standing = StandingPicture()
        self._corrections = np.zeros(LAYERS + 3)  # octaves
        self._squares = {afresh: spread**2 for afresh, spread in _SPREAD.items()}  # of errors, usually
        self._unseen = np.zeros(len(QPS))  # changes of the frames since the last that later ones refer to
        self._still = 1.0  # of the picture since then
        self._asked: _FrameForecast | None = None

    def predict(self, look: FrameLook, layer: int, *, afresh: bool) -> Curve:
        intra, still = self._densities.intra(look), min(look.still, self._still)
        # What was shown in a frame that nobody refers to is as new to this one.
        changes = np.maximum(self._densities.changes(look, _NEW * min(2 * look.still, 1.0)), self._unseen)
        bare = {_AFRESH: intra}
        if not afresh:
            finer = _REFINED * self._standing.finer(intra)
            bare = {layer: changes, _FLOOR: np.full(len(QPS), INTER.floor), _FINER: finer}
        scales = 2.0**self._corrections
        parts = tuple(part * scales[kind] for kind, part in bare.items())
        log2_bits: NDArray[np.float64] = np.log2(sum(parts))
        lasting = log2_bits if afresh else np.log2(parts[0] + parts[1])
        self._asked = _FrameForecast(log2_bits, parts, tuple(bare), changes, still, layer, afresh)
        spread = np.full(len(QPS), self._squares[afresh] ** 0.5)
        return Curve(log2_bits, spread, lasting, 1.0 if afresh else self._standing.coarsest - _STEPS)

    def learn(self, qp: int, bits: int) -> None:
        asked = self._asked
        if asked is None:
            return
        taken = np.array([part[qp - 1] for part in asked.parts])
        refined = 1.0
        if not asked.afresh and taken[2] > taken[0] + taken[1]:
            # Encoders leave refining out until there is much to gain: the picture is then no finer than before.
            refined = float(min(max((bits - taken[0] - taken[1]) / (_REACHED * taken[2]), 0.0), 1.0))
        if refined > _REACHED:
            self._correct(asked, taken, np.log2(max(bits, 1)) - asked.log2_bits[qp - 1])
        if is_reference(asked.layer):
            self._standing.coded(qp, 0.0 if asked.afresh else asked.still, refined)
            self._unseen, self._still = np.zeros(len(QPS)), 1.0
        else:
            self._unseen, self._still = asked.changes, asked.still

    def _correct(self, asked: _FrameForecast, taken: NDArray[np.float64], error: float) -> None:
        """Move each correction by its share of what the frame was off by, in octaves."""
        error = float(min(max(error, -_LARGEST_ERROR), _LARGEST_ERROR))
        shares = taken / taken.sum()
        self._corrections[list(asked.kinds)] += (1 - _MEMORY[asked.afresh]) * error * shares / (shares**2).sum()
        if asked.afresh:
            self._corrections[_FINER] = self._corrections[_AFRESH]
        else:
            rise = _SPILL * max(error - _SURPRISE, 0.0)
            self._corrections[:LAYERS] += rise
            self._corrections[_FINER] += rise
        np.clip(self._corrections, -_LARGEST_CORRECTION, _LARGEST_CORRECTION, out=self._corrections)
        before, least = self._squares[asked.afresh], _SPREAD[asked.afresh] ** 2
        squares = before + (1 - _SPREAD_MEMORY) * (error**2 - before)
        self._squares[asked.afresh] = min(max(squares, least), _MOST_SPREAD**2)
