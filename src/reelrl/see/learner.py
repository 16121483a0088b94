"""`StreamingAutoEncoder`: one frame in, one score, one update, next frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.errors import CheckpointError
from reelrl.see.execution import Speed, fast_step
from reelrl.see.frames.preprocess import check_frame, to_input
from reelrl.see.model.averages import Shrink
from reelrl.see.model.background import Background
from reelrl.see.model.change import PixelChangeDetector, compute_frame_difference
from reelrl.see.model.decoder import Decoder
from reelrl.see.model.encoder import Encoder
from reelrl.see.model.layers import sparse_init_
from reelrl.see.model.loss import Losses, reconstruction_loss
from reelrl.see.optim import descend, make_optimiser
from reelrl.see.result import Embeddings, LearnResult
from reelrl.see.settings import FRAME_SIZE, KERNELS, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A pixel this far from the background counts as something in front of it.
FOREGROUND = 0.1


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
        self.speed = Speed(self)
        self._fast_step = fast_step([self], self.settings.step)

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
        self.frames_seen += 1
        return self._fast_step([frame.to(self.device, non_blocking=True)], [reset])[0]

    def step(self, raw: Tensor, reset: Tensor) -> LearnResult:
        """`learn` on tensors that are already here: a fixed sequence of device work, for whoever captures it."""
        frame = to_input(raw)
        mask = self.detector(frame)
        in_front = (compute_frame_difference(frame, self.background.mean) > FOREGROUND).float()
        embeddings, votes = self.speed.side_by_side(self.background.normalise(frame))
        losses, picture, foreground_mse = self.speed.judge(votes, embeddings[0], frame, mask, in_front)
        self.optimiser.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        loss = losses.total.detach()
        norm = descend(self.optimiser, self.settings.optimiser, loss, reset)
        self.background.update(frame)
        return LearnResult(
            loss=loss,
            mse=losses.mse,
            l1=losses.l1,
            ssim=losses.ssim,
            gradient_norm=norm,
            foreground_mse=foreground_mse,
            foreground_share=in_front.mean(),
            reconstruction=picture,
            embeddings=(embeddings[0].detach(), embeddings[1].detach(), embeddings[2].detach()),
            change_mask=mask,
            frame=frame,
        )

    def path(self, branch: int, normalised: Tensor) -> tuple[Tensor, Tensor]:
        """One branch's embedding of a normalised frame, and its votes on the picture."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            embedding = self.encoder.embed(branch, normalised)
            return embedding, self.decoder.branches[branch](embedding)

    def judge(
        self, votes: Sequence[Tensor], fine: Tensor, frame: Tensor, mask: Tensor, in_front: Tensor
    ) -> tuple[Losses, Tensor, Tensor]:
        """Losses, the picture and its foreground error; pixels that changed and those in front weigh more."""
        weight = 1.0 + self.settings.loss.change * mask + self.settings.loss.foreground * in_front
        painted = self.decoder.fuse(votes, self.background.mean)
        # Learned from before it is clamped: where a picture is too bright the gradient must not vanish.
        losses = reconstruction_loss(painted, frame, weight, self.settings.loss)
        if self.settings.loss.small:
            losses = losses._replace(total=losses.total + self.settings.loss.small * self.small_loss(fine, frame))
        picture = painted.detach().clamp(0, 1)
        squares = (picture - frame).square().mean(dim=1, keepdim=True)
        return losses, picture, (squares * in_front).sum() / in_front.sum().clamp(min=1.0)

    def small_loss(self, fine: Tensor, frame: Tensor) -> Tensor:
        """How far a linear reading of the finest embedding is from the averages, of differences from the background."""
        error: Tensor = self.reader(fine).float() - self.shrink(frame - self.background.mean)
        return (self.settings.loss.mse * error.square() + self.settings.loss.l1 * error.abs()).mean()

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
