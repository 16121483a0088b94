"""The same network trained the ordinary way: the frames of a stream kept, shuffled, learned from in batches with Adam.

A yardstick for learning while watching: it may look at a frame as often as it likes, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from reelrl.errors import ConfigError
from reelrl.runs.progress import track
from reelrl.see.frames.preprocess import to_input
from reelrl.see.frames.source import FrameSource
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.model.change import compute_frame_difference
from reelrl.see.model.loss import reconstruction_loss
from reelrl.see.update import FOREGROUND

if TYPE_CHECKING:
    from reelrl.see.settings import AutoEncoderSettings

BATCH = 16
RATE = 1e-3


def train_ordinary(
    settings: AutoEncoderSettings, source: str, frames: int, updates: int, *, device: str = "cpu", seed: int = 0
) -> StreamingAutoEncoder:
    """A model that saw the first `frames` of a stream in `updates` batches of 16, each epoch shuffled anew."""
    if frames < BATCH or updates < 1:
        raise ConfigError(f"frames {frames}, updates {updates}; at least {BATCH} frames and 1 update are needed")
    with FrameSource(source, seed, device) as stream:
        kept = torch.stack([frame.pixels for frame, _ in zip(stream, range(frames), strict=False)])
    model = StreamingAutoEncoder(settings, device)
    for start in range(0, len(kept), max(1, len(kept) // 1000)):
        model.background.update(to_input(kept[start : start + 1]))
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    chance = torch.Generator().manual_seed(settings.seed)
    order: list[int] = []
    for _ in track(range(updates), "batches", unit="updates"):
        if len(order) < BATCH:
            order = torch.randperm(len(kept), generator=chance).tolist()
        batch = to_input(kept[torch.tensor(order[:BATCH], device=kept.device)])
        order = order[BATCH:]
        in_front = (compute_frame_difference(batch, model.background.mean) > FOREGROUND).float()
        losses = reconstruction_loss(model(batch), batch, 1 + settings.loss.foreground * in_front, settings.loss)
        optimiser.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model
