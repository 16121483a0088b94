"""A teacher for the first steps: players learn from pictures what a rule, which is told what is in them, would do.

    the team plays ─► the teacher says what it would have done ─► lessons, old and new ─► steps on cross-entropy

The states are those that the team itself gets into (DAgger), so it learns what to do there and not only on the
teacher's way; in the first of them the teacher plays some of the matches itself. PPO's steps of the actor wait, and the
critic learns from the first step on. Afterwards nobody teaches any more, and PPO goes on alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from benchmarl.experiment.callback import Callback
from tensordict import TensorDict
from torch.nn.functional import cross_entropy

from reelrl.act.marl.benchmarl.frame_rows import ROWS, stack_rows
from reelrl.act.marl.benchmarl.models import VideoPolicyModel
from reelrl.act.marl.benchmarl.rollouts import GROUP, NOT_TAUGHT, TAUGHT

if TYPE_CHECKING:
    from tensordict import TensorDictBase
    from torch import Tensor

    from reelrl.act.marl.benchmarl.train import DoomExperiment
    from reelrl.act.marl.settings import ImitationSettings

STATE = "imitation"
_MIXED = 8  # collected batches that a minibatch is drawn from


class TaughtBatch(NamedTuple):
    """A collected batch: its single frames, where steps have rows of them, and the steps with the teacher's actions."""

    frames: Tensor | None
    steps: TensorDictBase


class Teaching(Callback):  # type: ignore[misc]
    """Steps of the actor towards the teacher's actions; adds `loss_imitation` and `imitated` to the figures."""

    experiment: DoomExperiment

    def __init__(self, settings: ImitationSettings) -> None:
        super().__init__()
        self.settings = settings
        self.lessons: list[TaughtBatch] = []

    def on_setup(self) -> None:
        loss = self.experiment.losses[GROUP]
        self.actor = next(each for each in loss.actor_network.modules() if isinstance(each, VideoPolicyModel))
        self.optimiser = torch.optim.Adam(list(loss.actor_network_params.flatten_keys().values()), self.settings.lr)

    def on_batch_collected(self, batch: TensorDictBase) -> None:
        """Keep what the teacher said, and as much of the past as there is room for."""
        if batch.get((GROUP, TAUGHT)).flatten()[0] == NOT_TAUGHT:
            self.lessons = []
            return
        frames = None if self.experiment.frames is None else self.experiment.frames.frames
        steps = batch.select(*self.actor.in_keys, ROWS, (GROUP, TAUGHT), strict=False).reshape(-1)
        self.lessons.append(TaughtBatch(frames, steps.to(self.experiment.config.train_device)))
        while sum(map(_length, self.lessons)) > max(self.settings.memory_steps, batch.numel()):
            del self.lessons[0]

    @property
    def under_way(self) -> bool:
        """Whether the newest batch was taught."""
        return bool(self.lessons)

    def step(self, count: int) -> TensorDict:
        """One step of the optimiser on so many steps of matches."""
        batch = self._sample(count)
        loss_module, taught = self.experiment.losses[GROUP], batch.get((GROUP, TAUGHT))
        with loss_module.actor_network_params.to_module(loss_module.actor_network):
            scores = self.actor.scores(batch)
        loss = cross_entropy(scores.flatten(0, -2), taught.flatten())
        torch.autograd.backward(loss)
        self.optimiser.step()
        self.optimiser.zero_grad()
        imitated = (scores.argmax(-1) == taught).float().mean()
        return TensorDict({"loss_imitation": loss.detach(), "imitated": imitated})

    def _sample(self, count: int) -> TensorDictBase:
        """From some of the lessons in equal parts."""
        mixed = min(_MIXED, len(self.lessons))
        parts = []
        for index in torch.randperm(len(self.lessons))[:mixed].tolist():
            lesson = self.lessons[index]
            steps = lesson.steps[torch.randint(_length(lesson), [-(-count // mixed)])]
            if lesson.frames is not None:
                steps.set(self.experiment.task.video_key, stack_rows(lesson.frames, steps.get(ROWS)))
            parts.append(steps)
        return torch.cat(parts)

    def on_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict[STATE] = {GROUP: self.optimiser.state_dict()}

    def on_load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if STATE in state_dict:
            self.optimiser.load_state_dict(state_dict[STATE][GROUP])

    def __getstate__(self) -> dict[str, Any]:
        return {}  # BenchMARL pickles its callbacks, and they hold the whole experiment


def _length(lesson: TaughtBatch) -> int:
    return len(lesson.steps)
