"""The controller of a part that is held to its bits: near the plan.

The encode takes other bits than its probe, by a factor that its mini-GOPs show as they come; a part makes up for it on
its way. It does not go far for its bits where others can make up for it too: all parts are to have one quality, and
bits far from the probe's QPs are not what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.encode.minigop.protocols import possible_delta

if TYPE_CHECKING:
    from reelrl.encode.minigop.protocols import MiniGopController, MiniGopEpisode, Situation
    from reelrl.encode.parts.coding import Budget

ROOM, ROOM_OF_FEW = 3.0, 8.0
"""QP steps from the planned deltas, either way, of a part among many and of one of few."""


class HeldController:
    """A controller's decisions, none further than the budget's `room` from the planned ones."""

    privileged = False

    def __init__(self, controller: MiniGopController, budget: Budget) -> None:
        self._controller, self._budget = controller, budget

    def reset(self, seed: int, episode: MiniGopEpisode) -> None:
        self._controller.reset(seed, episode)

    def act(self, situation: Situation) -> float:
        planned, room = self._budget.deltas[situation.request.mg], self._budget.room
        return possible_delta(min(max(self._controller.act(situation), planned - room), planned + room))
