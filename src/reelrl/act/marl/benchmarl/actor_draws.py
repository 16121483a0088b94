"""What players do, drawn from the scores of PPO's actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from reelrl.act.marl.benchmarl.rollouts import Known


class OwnDraws:
    """The actor of PPO with chance of its own: the learner beside it draws too, and who is first is nobody's plan."""

    def __init__(self, actor: Any, seed: int, device: torch.device) -> None:
        self.actor = actor
        self._generator = torch.Generator(device).manual_seed(seed)

    def state(self) -> Tensor:
        return self._generator.get_state()

    def restore(self, state: Tensor) -> None:
        self._generator.set_state(state.cpu())

    def seed(self) -> int:
        """A number for others to draw from."""
        return int(torch.randint(2**31, (1,), generator=self._generator, device=self._generator.device))

    @torch.no_grad()
    def __call__(self, known: Known) -> dict[str, Tensor]:
        scores = self.actor.scores(known).log_softmax(-1)
        flat = torch.multinomial(scores.flatten(0, -2).exp(), 1, generator=self._generator)
        action = flat.reshape(scores.shape[:-1])
        return {"action": action, "log_prob": scores.gather(-1, action[..., None])[..., 0]}
