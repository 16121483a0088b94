"""How fine a picture is that stands still: at which QPs its parts were left, by share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.live.qps import QPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PART = 0.1  # of the picture: less may be coarser


class StandingPicture:
    """What the frames that others refer to show so far; nothing yet is as coarse as can be."""

    def __init__(self) -> None:
        self._shares = np.zeros(len(QPS))
        self._shares[-1] = 1.0

    def finer(self, intra: NDArray[np.float64]) -> NDArray[np.float64]:
        """By QP, what the picture takes there beyond what its parts take where they are; `intra` is all of it by QP."""
        coarser = np.cumsum(self._shares[::-1])[::-1] - self._shares
        own = self._shares * intra
        known = np.cumsum(own[::-1])[::-1] - own
        return np.asarray(np.maximum(coarser * intra - known, 0))

    @property
    def coarsest(self) -> float:
        """The QP that a tenth of the picture was left at, or coarser."""
        return float(QPS[np.searchsorted(np.cumsum(self._shares), 1 - _PART)])

    def coded(self, qp: int, still: float, refined: float) -> None:
        """A frame at this QP: `still` of it was there before, and of what was coarser `refined` is now as fine."""
        coarser = self._shares[qp:].sum()
        self._shares[qp:] *= 1 - refined
        self._shares[qp - 1] += refined * coarser
        self._shares *= still
        self._shares[qp - 1] += 1 - still
        self._shares /= self._shares.sum()
