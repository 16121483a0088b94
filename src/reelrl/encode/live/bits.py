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
_TABLES = {True: INTRA.table(), False: INTER.table()}


class Densities:
    """log2 of the bits as the densities alone say, for frame after frame of a stream."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels
        self._reference_qp = 0.0  # that the picture so far was left at, where it stands still
        self._still = 0.0

    def of(self, look: FrameLook, *, afresh: bool) -> tuple[NDArray[np.float64], ...]:
        """log2 of the bits by QP: coded afresh, as it is to be coded, and of that what lasts."""
        self._still = look.still
        intra = INTRA.floor + self._pixels * (_TABLES[True] @ look.intra)
        log2_intra: NDArray[np.float64] = np.log2(intra)
        if afresh:
            return log2_intra, log2_intra, log2_intra
        finer = np.maximum(intra - intra[round(self._reference_qp) - 1], 0)
        inter = INTER.floor + self._pixels * (_TABLES[False] @ look.inter)
        return log2_intra, np.log2(inter + REFINED * finer), np.log2(inter)

    def coded(self, qp: int, layer: int, *, afresh: bool, levels: int = LEVELS) -> None:
        """The frame was coded at this QP."""
        if afresh or self._reference_qp == 0:
            self._reference_qp = qp
        elif is_reference(layer, levels):
            # What moves is left at this QP, what stands still at the finest so far.
            self._reference_qp = self._still * min(self._reference_qp, qp) + (1 - self._still) * qp


class RuleBits:
    """A density of bits by energy, with a correction for each layer and for frames coded afresh, kept up to date."""

    def __init__(self, pixels: int) -> None:
        self._densities = Densities(pixels)
        self._corrections = np.zeros(LAYERS + 1)  # octaves; the last is for frames afresh
        self._asked: tuple[NDArray[np.float64], int, bool] | None = None

    def predict(self, look: FrameLook, layer: int, *, afresh: bool) -> Curve:
        kind = LAYERS if afresh else layer
        _, base, lasting = self._densities.of(look, afresh=afresh)
        base = base + self._corrections[kind]
        self._asked = (base, layer, afresh)
        return Curve(base, np.full(len(QPS), _SPREAD[afresh]), lasting + self._corrections[kind])

    def learn(self, qp: int, bits: int) -> None:
        if self._asked is None:
            return
        base, layer, afresh = self._asked
        error = np.log2(max(bits, 1)) - base[qp - 1]
        self._corrections[LAYERS if afresh else layer] += (1 - _MEMORY[afresh]) * error
        self._densities.coded(qp, layer, afresh=afresh)
