"""What each part may take: the budget of the whole, spent as one controller over all mini-GOPs would plan it.

All parts have one quality: one QP delta over that of the probes. Each part is planned when some others are finished
and some under way; its delta is the one with which it and all that are not planned yet take what those leave. What
finished parts took corrects it: by what is left, and by how far their probes were off.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.parts.coding import Budget
from reelrl.encode.parts.held_controller import ROOM as HELD_ROOM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.minigop.controllers.rules import RateModel
    from reelrl.encode.minigop.protocols import MiniGopEpisode
    from reelrl.encode.parts.coding import CodedPart
    from reelrl.encode.parts.probing import Probes

ROOM = 4.0
"""QP steps from the quality of the whole, either way, that a part is moved to make up for others."""

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
        self._slopes = np.array(probes.slopes)
        self._at_no_delta = np.array([self._bits(number) for number in range(len(probes.plans))])
        self._unplanned = np.ones(len(probes.plans), bool)
        self._under_way: dict[int, Budget] = {}
        self._took = self._expected = 0.0

    @property
    def ratio(self) -> float:
        """What finished parts took of what their probes said; before there are many, mostly what is usual."""
        doubt = _DOUBT * self._whole_bits
        return (self._took + self._probes.ratio * doubt) / (self._expected + doubt)

    def plan(self, number: int, *, hold: bool, room: float = HELD_ROOM) -> Budget:
        """The budget of a part, which is under way from now on: fixed deltas, or with `hold` bits that are held.

        For these it may go as far as `room` from the deltas.
        """
        delta, ratio = self._common_delta(), self.ratio
        self._unplanned[number] = False
        deltas = tuple(delta + offset for offset in self._offsets[number])
        plan, slope = self._probes.plans[number], self._probes.slopes[number]
        budget = Budget(1.0, plan, slope, deltas, ratio, self._policy if hold else None, room=room)
        self._under_way[number] = replace(budget, bits=ratio * budget.expected_bits(deltas))
        return self._under_way[number]

    def finish(self, part: CodedPart) -> None:
        """Count a part that is coded."""
        del self._under_way[part.number]
        self._took += 8 * part.size_bytes
        self._expected += part.expected_bits

    def _common_delta(self) -> float:
        """QP steps with which all that is not planned takes what is left, near those that the whole would have."""
        everything = self._solved(np.ones(len(self._unplanned), bool), self._whole_bits)
        # A part under way that is not held takes what its probe says, as that is understood by now.
        promised = sum(
            budget.bits if budget.policy else budget.bits * self.ratio / budget.ratio
            for budget in self._under_way.values()
        )
        delta = self._solved(self._unplanned, self._whole_bits - self._took - promised)
        return min(max(delta, everything - ROOM), everything + ROOM)

    def _solved(self, parts: NDArray[np.bool_], bits: float) -> float:
        """The delta with which these parts take so many bits."""
        at_no_delta, slopes = self._at_no_delta[parts] * self.ratio, self._slopes[parts]
        low, high = -_LARGEST_DELTA, _LARGEST_DELTA
        for _ in range(60):  # bits fall with the delta
            middle = (low + high) / 2
            more = float(np.sum(at_no_delta * np.exp2(-slopes * middle))) > bits
            low, high = (middle, high) if more else (low, middle)
        return (low + high) / 2

    def _bits(self, number: int) -> float:
        """What a part takes by its probe with the offsets alone."""
        slope = self._probes.slopes[number]
        minigops = zip(self._probes.plans[number].minigops, self._offsets[number], strict=True)
        return sum((planned.probe_bits or 0) * math.exp2(-slope * offset) for planned, offset in minigops)
