"""A teacher for the first steps: players who only see learn what the oracle, which knows everybody's place, would do.

    every minibatch ─► PPO's step ─► a step on cross-entropy(actor's scores, oracle's actions)        up to `steps`

The states are those that the team itself gets into, so it learns what to do there and not only on the teacher's way.
Afterwards nobody teaches any more, and PPO goes on alone. The critic learns from the first step on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from benchmarl.experiment.callback import Callback
from tensordict import TensorDict
from torch.nn.functional import cross_entropy

from reelrl.act.marl.benchmarl.models import VideoPolicyModel
from reelrl.act.marl.benchmarl.rollouts import NOT_TAUGHT, TAUGHT

if TYPE_CHECKING:
    from tensordict import TensorDictBase

    from reelrl.act.marl.settings import ImitationSettings

STATE = "imitation"


class TeachingTerm(Callback):  # type: ignore[misc]
    """Steps of the actor towards the teacher's actions; adds `loss_imitation` and `imitated` to the figures."""

    def __init__(self, settings: ImitationSettings) -> None:
        super().__init__()
        self.settings = settings
        self.optimisers: dict[str, torch.optim.Optimizer] = {}

    def on_setup(self) -> None:
        for group, loss in self.experiment.losses.items():
            parameters = list(loss.actor_network_params.flatten_keys().values())
            self.optimisers[group] = torch.optim.Adam(parameters, self.settings.lr)

    def on_train_step(self, batch: TensorDictBase, group: str) -> TensorDictBase | None:
        taught = batch.get((group, TAUGHT))
        if taught.flatten()[0] == NOT_TAUGHT:
            return None
        loss_module = self.experiment.losses[group]
        actor = next(each for each in loss_module.actor_network.modules() if isinstance(each, VideoPolicyModel))
        with loss_module.actor_network_params.to_module(loss_module.actor_network):
            scores = actor.scores(batch)
        loss = cross_entropy(scores.flatten(0, -2), taught.flatten())
        torch.autograd.backward(loss)
        self.optimisers[group].step()
        self.optimisers[group].zero_grad()
        imitated = (scores.argmax(-1) == taught).float().mean()
        return TensorDict({"loss_imitation": loss.detach(), "imitated": imitated})

    def on_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict[STATE] = {group: optimiser.state_dict() for group, optimiser in self.optimisers.items()}

    def on_load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for group, state in state_dict.get(STATE, {}).items():
            self.optimisers[group].load_state_dict(state)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # BenchMARL pickles its callbacks, and they hold the whole experiment
