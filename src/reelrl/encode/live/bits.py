"""How many bits a frame will take at each QP, from its looks and from what frames before it took.

`RuleBits`: the energy of a block against the quantiser's step gives its bits; what is left is learnt on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from reelrl.encode.live.frame_look import OCTAVES
from reelrl.encode.live.structure import LAYERS, LEVELS, is_reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.live.frame_look import FrameLook

QPS = np.arange(1, 64)
"""What a frame may be coded at; curves have an entry for each."""

# AV1's step in pixel levels doubles every ten QP, within a tenth of an octave from QP 10 to 60.
_LOG2_STEP = QPS / 10 + 1.35


class Curve(NamedTuple):
    """log2_bits  expected at each of `QPS`
    spread        standard deviation of what comes out, in octaves
    lasting       log2 of the bits that frames like it go on taking, once its picture has been made as fine
    """

    log2_bits: NDArray[np.float64]
    spread: NDArray[np.float64]
    lasting: NDArray[np.float64]


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

_MEMORY = {True: 0.5, False: 0.6}  # of what was known before a frame, afresh and not
_SPREAD = {True: 0.45, False: 0.35}  # octaves
_REFINED_SPREAD = 0.35  # octaves more where all bits go into a finer picture
_TABLES = {True: INTRA.table(), False: INTER.table()}


class Parts(NamedTuple):
    """Bits by QP as the densities alone say: afresh, of what has changed, and of a finer picture of what has not."""

    intra: NDArray[np.float64]
    inter: NDArray[np.float64]
    finer: NDArray[np.float64]


class Densities:
    """Bits as the densities alone say, for frame after frame of a stream."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels
        self._reference_qp = 0.0  # that the picture so far was left at, where it stands still
        self._still = 0.0

    def parts(self, look: FrameLook) -> Parts:
        """Of the coming frame; `INTER.floor` bits come on top of it where it is not coded afresh."""
        self._still = look.still
        intra = INTRA.floor + self._pixels * (_TABLES[True] @ look.intra)
        reference = float(np.interp(max(self._reference_qp, 1.0), QPS, intra))
        finer = REFINED * np.maximum(intra - reference, 0)
        return Parts(intra, self._pixels * (_TABLES[False] @ look.inter), finer)

    def of(self, look: FrameLook, *, afresh: bool) -> tuple[NDArray[np.float64], ...]:
        """log2 of the bits by QP: coded afresh, as it is to be coded, and of that what lasts."""
        intra, inter, finer = self.parts(look)
        log2_intra: NDArray[np.float64] = np.log2(intra)
        if afresh:
            return log2_intra, log2_intra, log2_intra
        return log2_intra, np.log2(INTER.floor + inter + finer), np.log2(INTER.floor + inter)

    def coded(self, qp: int, layer: int, *, afresh: bool, levels: int = LEVELS, bought_qp: float | None = None) -> None:
        """The frame was coded at this QP; its bits made what stands still as fine as `bought_qp`, if that is known."""
        if afresh or self._reference_qp == 0:
            self._reference_qp = qp
        elif is_reference(layer, levels):
            # What moves is left at this QP, what stands still at the finest so far.
            finest = min(self._reference_qp, qp if bought_qp is None else bought_qp)
            self._reference_qp = self._still * finest + (1 - self._still) * qp


class RuleBits:
    """A density of bits by energy, with corrections that are kept up to date: for what has changed in each layer, and
    for frames afresh. What a finer picture takes is not corrected: encoders leave out what is only a little finer, and
    whoever learns from that is surprised by the rest.
    """

    def __init__(self, pixels: int) -> None:
        self._densities = Densities(pixels)
        self._corrections = np.zeros(LAYERS + 1)  # octaves; the last is for frames afresh
        self._asked: tuple[Parts, NDArray[np.float64], int, bool] | None = None

    def predict(self, look: FrameLook, layer: int, *, afresh: bool) -> Curve:
        parts = self._densities.parts(look)
        if afresh:
            base = np.log2(parts.intra) + self._corrections[LAYERS]
            self._asked = (parts, base, layer, afresh)
            return Curve(base, np.full(len(QPS), _SPREAD[afresh]), base)
        inter = INTER.floor + parts.inter * 2 ** self._corrections[layer]
        total = inter + parts.finer
        base = np.log2(total)
        self._asked = (Parts(parts.intra, inter, parts.finer), base, layer, afresh)
        return Curve(base, _SPREAD[afresh] + _REFINED_SPREAD * parts.finer / total, np.log2(inter))

    def learn(self, qp: int, bits: int) -> None:
        if self._asked is None:
            return
        parts, base, layer, afresh = self._asked
        step = (1 - _MEMORY[afresh]) * (np.log2(max(bits, 1)) - base[qp - 1])
        if afresh:
            self._corrections[LAYERS] += step
            self._densities.coded(qp, layer, afresh=True)
            return
        # Whoever said most of it learns most from it; what a frame takes at least is no news.
        inter, finer = parts.inter[qp - 1], parts.finer[qp - 1]
        self._corrections[layer] += step * (inter - INTER.floor) / (inter + finer)
        bought = _finest(parts.finer, max(bits - inter, 0.0), qp)
        self._densities.coded(qp, layer, afresh=False, bought_qp=bought)


def _finest(finer: NDArray[np.float64], bits: float, qp: int) -> float:
    """The QP that so many bits make a picture as fine as, at the finest `qp`."""
    return max(float(np.interp(-bits, -finer, QPS)), float(qp))  # bits fall with the QP
