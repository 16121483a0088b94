"""Many independent learners in one pass over a device: seeds, optimisers and settings side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reelrl.errors import ConfigError
from reelrl.see.execution import step_of
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.result import FIGURES
from reelrl.see.settings import FRAME_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.see.settings import AutoEncoderSettings


class ManyLearners:
    """One learner per settings; each learns what it would learn alone, and a GPU runs them side by side."""

    def __init__(self, settings: Sequence[AutoEncoderSettings], device: str | torch.device = "cpu") -> None:
        if not settings:
            raise ConfigError("there are no settings, so there is nobody to learn; give at least one")
        self.learners = [StreamingAutoEncoder(each, device) for each in settings]
        self._step = step_of(self.learners)

    def learn(self, frames: Tensor, resets: Sequence[bool] | None = None) -> Tensor:
        """Score and learn one frame each, [L, 3, 224, 224] float in [0, 1]. Returns the FIGURES of each, [L, 7]."""
        expected = (len(self.learners), 3, FRAME_SIZE, FRAME_SIZE)
        if frames.shape != expected:
            raise ConfigError(f"frames have shape {tuple(frames.shape)}; these learners need {expected}")
        results = self._step(frames.unbind(), resets or [False] * len(self.learners))
        return torch.stack([getattr(result, name) for result in results for name in FIGURES]).view(len(results), -1)
