"""What each part may take: the budget of the whole, spent as one controller over all mini-GOPs would plan it.

All parts that are still to be coded are moved by one QP delta, so that they take together what is left. What finished
parts took corrects it: by what is left, and by how far their probes were off.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.encode.parts.coding import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.minigop.controllers.rules import RateModel
    from reelrl.encode.minigop.protocols import MiniGopEpisode
    from reelrl.encode.parts.coding import CodedPart
    from reelrl.encode.parts.probing import Probes

_LEAST = 0.5  # of their shares is left to parts, whatever others took
_DOUBT = 0.1  # of the whole: weight of the usual ratio against that of finished parts
_LARGEST_DELTA = 40.0


class PartBudgets:
    """Budgets of parts, in all that of the `whole`, whose plan has the mini-GOPs of all of them.

    The controller sets mini-GOPs of all parts against each other as within one clip: so each part gets the quality that
    it would have in one piece.
    """

    def __init__(self, controller: RateModel, whole: MiniGopEpisode, probes: Probes, policy: str) -> None:
        controller.reset(0, whole)
        offsets = iter(controller.offsets_in_force)
        self._offsets = [[next(offsets) for _ in plan.minigops] for plan in probes.plans]
        self._probes, self._policy, self._whole_bits = probes, policy, whole.budget_bits
        self._unfinished = set(range(len(probes.plans)))
        self._took = self._expected = 0.0

    @property
    def ratio(self) -> float:
        """What finished parts took of what their probes said; before there are many, mostly what is usual."""
        doubt = _DOUBT * self._whole_bits
        return (self._took + self._probes.ratio * doubt) / (self._expected + doubt)

    def budgets(self, numbers: Sequence[int], *, chase: bool, look: bool = False) -> list[Budget]:
        """Of parts that are not finished: fixed deltas, or with `chase` bits that are held on the way.

        With `look` each may begin again after its first mini-GOP.
        """
        delta, ratio = self._common_delta(), self.ratio
        found = []
        for number in numbers:
            plan, slope = self._probes.plans[number], self._probes.slopes[number]
            deltas = tuple(delta + offset for offset in self._offsets[number])
            policy = self._policy if chase else None
            budget = Budget(1.0, plan, slope, deltas, ratio, policy, looks=look)
            found.append(replace(budget, bits=ratio * budget.expected_bits(deltas)))
        return found

    def finish(self, part: CodedPart) -> None:
        """Count a part that is coded."""
        self._unfinished.discard(part.number)
        self._took += 8 * part.size_bytes
        self._expected += part.expected_bits

    def _common_delta(self) -> float:
        """QP steps with which all that is unfinished takes what is left."""
        share = sum(self._bits(number, 0.0) for number in self._unfinished)
        whole = sum(self._bits(number, 0.0) for number in range(len(self._offsets)))
        left = max(self._whole_bits - self._took, _LEAST * self._whole_bits * share / whole)
        low, high = -_LARGEST_DELTA, _LARGEST_DELTA
        for _ in range(60):  # bits fall with the delta
            middle = (low + high) / 2
            more = self.ratio * sum(self._bits(number, middle) for number in self._unfinished) > left
            low, high = (middle, high) if more else (low, middle)
        return (low + high) / 2

    def _bits(self, number: int, delta: float) -> float:
        """What a part takes by its probe with a delta."""
        slope = self._probes.slopes[number]
        minigops = zip(self._probes.plans[number].minigops, self._offsets[number], strict=True)
        return sum((planned.probe_bits or 0) * math.exp2(-slope * (delta + offset)) for planned, offset in minigops)
