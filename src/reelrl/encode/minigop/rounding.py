"""From a delta that need not be whole to the whole QPs of a mini-GOP's pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LOWEST_QP, HIGHEST_QP = 1, 63

OCTAVES_PER_QP = 0.095
"""What one QP step on a whole pyramid usually takes from the bits: 0.06 to 0.12, grain 0.20 (minigop_facts.py)."""


class Rounding:
    """Whole QPs whose mean follows the deltas asked for.

    What rounding takes from a picture is given to the next of the same layer, in this mini-GOP or a later one. So each
    layer's mean is right, and with it the bits: half of them lie in the one base picture, which a rounding per
    mini-GOP would always push the same way.
    """

    def __init__(self) -> None:
        self._owed: dict[int, float] = {}

    def realise(self, qps: Sequence[int], layers: Sequence[int], delta: float) -> list[int]:
        """QPs of the pictures with `delta` added, each within 1 to 63."""
        return [self._next(qp, layer, delta) for qp, layer in zip(qps, layers, strict=True)]

    def _next(self, qp: int, layer: int, delta: float) -> int:
        wanted = delta + self._owed.get(layer, 0.0)
        step = round(wanted)
        self._owed[layer] = wanted - step
        return min(max(qp + step, LOWEST_QP), HIGHEST_QP)
