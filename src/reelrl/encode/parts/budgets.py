"""What each part may take: the budget of the whole, spent as one controller over all mini-GOPs would plan it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.minigop.controllers.rules import RateModel
    from reelrl.encode.minigop.protocols import MiniGopEpisode


def part_budgets(controller: RateModel, whole: MiniGopEpisode, minigops: Sequence[int]) -> list[float]:
    """Bits for each part, in all those of the `whole`, whose plan has every part's mini-GOPs; `minigops` counts them.

    The controller sets mini-GOPs of all parts against each other as within one clip: so each part gets the quality that
    it would have in one piece.
    """
    controller.reset(0, whole)
    scale, wanted = whole.budget_bits / sum(controller.planned_bits), iter(controller.planned_bits)
    return [scale * sum(next(wanted) for _ in range(count)) for count in minigops]
