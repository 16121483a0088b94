"""Cross-ego contrastive learning beside the policy: teammates' views of one step come together, as the actor sees them.

    minibatch ─► PPO loss ─► loss_objective + weight * contrastive loss of a pair
                    └ actor's encoder ─► z of each player alive ─► CrossEgoContrastive
                                      moments: one for each step of each match

The projector has an optimiser of its own: in the actor's, its large first gradients would be clipped together with
those of the policy, and leave nothing of them. It is saved with the experiment; those who play do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from benchmarl.experiment.callback import Callback

from reelrl.act.location.model.contrastive_loss import CrossEgoContrastive
from reelrl.act.marl.benchmarl.models import AgentVideoReader

if TYPE_CHECKING:
    from tensordict import TensorDictBase
    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle

    from reelrl.act.marl.settings import ContrastiveTermSettings

OBJECTIVE = "loss_objective"  # as PPO's losses call it
STATE = "contrastive"


class ContrastiveTerm(Callback):  # type: ignore[misc]
    """Adds the term to the loss of every minibatch, and `loss_contrastive` and `contrastive_top1` to the figures."""

    def __init__(self, settings: ContrastiveTermSettings) -> None:
        super().__init__()
        self.settings = settings
        self.modules: dict[str, CrossEgoContrastive] = {}
        self.optimisers: dict[str, torch.optim.Optimizer] = {}

    def on_setup(self) -> None:
        for group, loss in self.experiment.losses.items():
            reader = next(module for module in loss.actor_network.modules() if isinstance(module, AgentVideoReader))
            # The term's first weights cost the rest of the training none of its chance.
            with torch.random.fork_rng(devices=[]):
                module = CrossEgoContrastive(
                    reader.width,
                    self.settings.proj_dim,
                    self.settings.hidden_dim,
                    # To a new encoder all views are alike: with less than the scale off, every pair would seem one.
                    init_logit_bias=-10.0,
                    self_pairs=self.settings.self_pairs,
                ).to(self.experiment.config.train_device)
            self.modules[group] = module
            self.optimisers[group] = torch.optim.Adam(module.parameters(), self.settings.lr)
            _EncoderTap(self, group, reader).listen_to(loss)

    def on_batch_collected(self, batch: TensorDictBase) -> None:
        """Write down which views are of one moment, and who is alive, before the batch is shuffled."""
        steps = batch.batch_size[-1]
        # Numbers of one match follow each other; those of different matches are further apart than `gap_steps`.
        moments = torch.arange(batch.numel(), device=batch.device).reshape(batch.batch_size)
        moments = moments + moments // steps * (self.settings.gap_steps + 1)
        for group in self.modules:
            health = batch.get((group, "info", "health"))
            alive = health.reshape(*batch.batch_size, -1) > 0
            batch.set((group, "alive"), alive)
            batch.set((group, "moment"), moments[..., None].expand_as(alive).contiguous())

    def on_train_step(self, batch: TensorDictBase, group: str) -> None:
        """The policy's step is done, and the gradients of its loss are here too."""
        del batch
        self.optimisers[group].step()
        self.optimisers[group].zero_grad()

    def on_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict[STATE] = {
            group: {"module": module.state_dict(), "optimiser": self.optimisers[group].state_dict()}
            for group, module in self.modules.items()
        }

    def on_load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for group, state in state_dict[STATE].items():
            self.modules[group].load_state_dict(state["module"])
            self.optimisers[group].load_state_dict(state["optimiser"])

    def __getstate__(self) -> dict[str, Any]:
        return {}  # BenchMARL pickles its callbacks, and they hold the whole experiment

    def add_to(self, losses: TensorDictBase, group: str, views: Tensor, batch: TensorDictBase) -> TensorDictBase:
        """The losses of a minibatch with the term over views [batch, agents, width]."""
        alive, moments = batch.get((group, "alive")), batch.get((group, "moment"))
        moments = moments[alive]
        answer = self.modules[group](views[alive], moments, negatives_too_near(moments, self.settings.gap_steps))
        # Of a pair, not of a row: how much the term weighs should not depend on the size of a minibatch.
        loss = answer.loss / max(len(moments) - 1, 1)
        losses.set(OBJECTIVE, losses.get(OBJECTIVE) + self.settings.weight * loss)
        losses.set("loss_contrastive", loss.detach())
        losses.set("contrastive_top1", answer.loss.new_tensor(answer.retrieval.top1))
        return losses


def negatives_too_near(moments: Tensor, gap_steps: int) -> Tensor:
    """Pairs of views [N, N] so close in time that they show nearly the same, though not the same moment."""
    apart = (moments[:, None] - moments).abs()
    return (apart > 0) & (apart <= gap_steps)


class _EncoderTap:
    """Catches what the actor's encoder answers while the loss of a minibatch is computed: nothing is encoded twice."""

    def __init__(self, term: ContrastiveTerm, group: str, reader: AgentVideoReader) -> None:
        self.term, self.group, self.reader = term, group, reader
        self.hook: RemovableHandle | None = None
        self.views: list[Tensor] = []

    def listen_to(self, loss: nn.Module) -> None:
        loss.register_forward_pre_hook(self._before)
        loss.register_forward_hook(self._after)

    def _before(self, *_: Any) -> None:
        self.views.clear()
        self.hook = self.reader.register_forward_hook(lambda _, __, answer: self.views.append(answer[0]))

    def _after(self, _: Any, inputs: tuple[TensorDictBase, ...], losses: TensorDictBase) -> TensorDictBase:
        if self.hook is not None:
            self.hook.remove()
        return self.term.add_to(losses, self.group, self.views.pop(), inputs[0])
