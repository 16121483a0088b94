"""Self-play: side A learns, side B is played by a copy of its actor as it was some batches ago.

batch       0   1   2   3   4   5   6         with renew = 3
side A      a0  a1  a2  a3  a4  a5  a6        the newest actor, or the one before (collector)
side B      a0  a0  a0  a3  a3  a3  a6        stays the same for a while, so that there is something to get better than
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from reelrl.act.marl.benchmarl.actor_draws import OwnDraws
    from reelrl.act.marl.benchmarl.rollouts import Known


class EarlierCopy:
    """Plays by `draws`, whose actor is a copy of the learner's; `step` is the one that it is of."""

    def __init__(self, draws: OwnDraws, renew: int) -> None:
        self.draws, self._renew = draws, renew
        self.step = 0
        self._draws_begun = draws.state()

    def __call__(self, known: Known) -> dict[str, Tensor]:
        return self.draws(known)

    @torch.no_grad()
    def before_batch(self, step: int, batch_steps: int, newest: Any) -> None:
        """Copy the newest actor where that is due before the batch that begins at a step."""
        self._draws_begun = self.draws.state()
        if step // batch_steps % self._renew:
            return
        for mine, theirs in zip(self.draws.actor.parameters(), newest.parameters(), strict=True):
            mine.copy_(theirs)
        self.step = step

    def state(self, *, under_way: bool) -> dict[str, Any]:
        """For whoever goes on from here; a batch that is under way is played anew."""
        draws = self._draws_begun if under_way else self.draws.state()
        return {"actor": self.draws.actor.state_dict(), "draws": draws, "step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.draws.actor.load_state_dict(state["actor"])
        self.draws.restore(state["draws"])
        self.step = state["step"]
