"""`StreamingAutoEncoder`: one frame in, one score, one update, next frame.

    learn ──► execution (now, compiled, or as a recorded graph) ──► update (what is computed)

Here is what lasts from frame to frame, and how it is saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.errors import CheckpointError
from reelrl.see.execution import step_of
from reelrl.see.frames.source import check_frame
from reelrl.see.model.averages import Shrink
from reelrl.see.model.layers import sparse_init_
from reelrl.see.model.loss import PixelChangeDetector
from reelrl.see.model.network import Background, Decoder, Encoder
from reelrl.see.optim import make_optimiser
from reelrl.see.settings import FRAME_SIZE, KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reelrl.see.result import Embeddings, LearnResult


class StreamingAutoEncoder(nn.Module):
    """The autoencoder, what it remembers of the stream, and its optimiser."""

    def __init__(self, settings: AutoEncoderSettings | None = None, device: str | torch.device = "cpu") -> None:
        super().__init__()
        self.settings = settings or AutoEncoderSettings()
        self.background = Background(FRAME_SIZE, memory=self.settings.background_frames)
        self.detector = PixelChangeDetector(FRAME_SIZE, floor=self.settings.change_floor)
        self.encoder = Encoder(self.settings)
        self.decoder = Decoder(self.settings)
        if self.settings.loss.small:
            self.shrink = Shrink(KERNELS[0])
            self.reader = nn.Conv2d(self.settings.latent_channels, 3, 1)
        sparse_init_(self, self.settings.sparsity, torch.Generator().manual_seed(self.settings.seed))
        self.encoder.start_at_averages_()
        self.decoder.start_at_background_()
        self.to(device)
        self.optimiser = make_optimiser(list(self.parameters()), self.settings.optimiser)
        self.frames_seen = 0
        self._step = step_of([self])

    @property
    def device(self) -> torch.device:
        return self.background.mean.device

    def encode(self, frames: Tensor) -> Embeddings:
        """Embeddings of frames [N, 3, 224, 224] in [0, 1]: [N, 3, 27, 27], [N, 2, 25, 25], [N, 2, 23, 23]."""
        embeddings: Embeddings = self.encoder(self.background.normalise(frames))
        return embeddings

    def decode(self, embeddings: Embeddings) -> Tensor:
        """Pictures [N, 3, 224, 224] in [0, 1]."""
        pictures: Tensor = self.decoder(embeddings, self.background.mean)
        return pictures.clamp(0, 1)

    def forward(self, frames: Tensor) -> Tensor:
        return self.decode(self.encode(frames))

    def learn(self, frame: Tensor, reset: bool = False) -> LearnResult:
        """Score one frame [3, H, W] (uint8, or float in [0, 1]), then learn from it.

        `reset` marks a cut: the first frame of an episode or scene. Nothing waits for the device, and where the step is
        a CUDA graph the result's tensors are overwritten by the next frame.
        """
        check_frame(frame)
        return self._step([frame.to(self.device, non_blocking=True)], [reset])[0]

    def training_state(self) -> dict[str, Tensor | int]:
        """Copies of everything that a bit-exact continuation needs, by name."""
        state: dict[str, Tensor | int] = {f"model.{name}": value.clone() for name, value in self.state_dict().items()}
        for name, parameter in self.named_parameters():
            for key, value in self.optimiser.state[parameter].items():
                if value is not None:
                    state[f"optimiser.{name}.{key}"] = torch.as_tensor(value).clone()
        return state | {"frames_seen": self.frames_seen}

    def load_training_state(self, state: Mapping[str, Tensor | int]) -> None:
        """Go on where `training_state` was taken; the settings must be the same."""
        weights = {name.removeprefix("model."): value for name, value in state.items() if name.startswith("model.")}
        missing = self.state_dict().keys() ^ weights.keys()
        if missing or "frames_seen" not in state:
            raise CheckpointError(
                f"the training state does not fit this model ({len(missing)} names differ, such as "
                f"{min(missing, default='frames_seen')!r}); resume with the settings it was saved with"
            )
        self.load_state_dict(weights)
        parameters = dict(self.named_parameters())
        for name, value in state.items():
            if name.startswith("optimiser."):
                owner, _, key = name.removeprefix("optimiser.").rpartition(".")
                self._load_optimiser(parameters[owner], key, torch.as_tensor(value))
        self.frames_seen = int(state["frames_seen"])

    def rewind(self, state: Mapping[str, Tensor | int]) -> None:
        """Go back to `state`, taken earlier from this very model; what the optimiser began since then is zero again."""
        for parameter in self.parameters():
            for value in self.optimiser.state[parameter].values():
                if isinstance(value, Tensor):
                    value.zero_()
        self.load_training_state(state)

    def _load_optimiser(self, parameter: Tensor, key: str, value: Tensor) -> None:
        held = self.optimiser.state[parameter]
        if isinstance(held.get(key), Tensor):
            held[key].copy_(value)
        else:
            held[key] = value.to(parameter.device, copy=True)
