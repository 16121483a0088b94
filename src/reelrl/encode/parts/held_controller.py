"""The controller of a part that is held to its bits: near the plan, and begun again where the plan is wrong.

The encode takes other bits than its probe, by a factor that the first mini-GOP shows well. A long part makes up for it
on its way; in a short one there is too little left by the time that it is known, so all is begun again. Nor does a part
go far for its bits: all parts are to have one quality, and bits far from the probe's QPs are not what it says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reelrl.encode.minigop.protocols import MiniGopController, MiniGopEpisode, Situation
    from reelrl.encode.parts.coding import Budget

LOOKED_AT = range(97, 241)
"""Frames of parts that are looked at: of shorter ones half is coded by then, and to code all again knows more."""

ROOM = 3.0
"""QP steps from the planned deltas, either way."""

_FAR_OCTAVES = 0.15
_MOST_OCTAVES = 0.3  # of a correction: one mini-GOP may be unlike all others


class BeginAgain(Exception):
    """What the encode takes of the plan's bits is about `ratio`."""

    def __init__(self, ratio: float) -> None:
        super().__init__(f"the encode takes {ratio:.2f} of its probe")
        self.ratio = ratio


class HeldController:
    """A controller's decisions, none further than `ROOM` from the planned ones.

    With `look` the first mini-GOP ends it by `BeginAgain` where it takes far more or less than expected.
    """

    privileged = False

    def __init__(self, controller: MiniGopController, budget: Budget, *, look: bool) -> None:
        self._controller, self._budget, self._look = controller, budget, look

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        self._controller.reset(seed, episode)

    def act(self, situation: Situation) -> float:
        if situation.history and self._look:
            self._look = False
            first = situation.history[0]
            expected = self._budget.ratio * self._budget.expected_bits([first.delta])
            octaves = min(max(math.log2(first.bits / expected), -_MOST_OCTAVES), _MOST_OCTAVES)
            if abs(octaves) > _FAR_OCTAVES:
                raise BeginAgain(self._budget.ratio * 2**octaves)
        planned = self._budget.deltas[situation.request.mg]
        return min(max(self._controller.act(situation), planned - ROOM), planned + ROOM)
