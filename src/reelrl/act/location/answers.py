"""What a net says about moments, as probabilities; and where it puts the views."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reelrl.act.location.model.net import HEADS

if TYPE_CHECKING:
    from reelrl.act.location.embeddings import Clips, Pooling
    from reelrl.act.location.model.net import CrossEgoVideoLocationNet, LocationOutput
    from reelrl.act.location.samples import Marks, Moments
    from reelrl.act.location.symmetry import Symmetry

Answers = dict[str, NDArray[np.float32]]
"""A probability for each place [N, places], by head."""
_AT_ONCE = 512  # moments


def views(
    net: CrossEgoVideoLocationNet, clips: Clips, moments: Moments, pooling: Pooling, turned: Symmetry | None = None
) -> dict[str, Tensor]:
    """What the net reads at these moments, by the name it reads it under; readings by place may be `turned`."""
    device = next(net.parameters()).device
    if pooling == "memory":
        histories, which, steps = clips.histories(moments)
        histories = turned.readings(histories) if turned else histories
        seats = torch.arange(histories.shape[1], device=device).repeat(len(histories))
        remembered = net.remember(histories.flatten(0, 1).to(device), seats)
        remembered = torch.unflatten(remembered, 0, histories.shape[:2])
        return {"remembered": remembered[torch.from_numpy(which), :, torch.from_numpy(steps)]}
    if clips.is_video:
        return {"video": clips.video(moments).to(device)}
    return {"embeddings": clips.embeddings(moments, pooling).to(device)}


def watch(
    net: CrossEgoVideoLocationNet, seen: dict[str, Tensor], moments: Moments, pov: Marks | None = None
) -> LocationOutput:
    """One pass of the net over `views` of all of the moments; `pov` are the views that the answer may come from."""
    device = next(net.parameters()).device
    return net(  # type: ignore[no-any-return]
        **seen,
        present=torch.from_numpy(moments.present).to(device),
        team=torch.from_numpy(moments.side).to(device),
        subset=None if pov is None else torch.from_numpy(pov).to(device),
    )


@torch.no_grad()
def answers(net: CrossEgoVideoLocationNet, clips: Clips, moments: Moments, pooling: Pooling, pov: Marks) -> Answers:
    """From the views of `pov` [N, A] alone: the net is given no other views."""
    net.eval()
    only = replace(moments, present=pov)
    parts = [_watched(net, clips, only.take(chosen), pooling).logits for chosen in _slices(len(only))]
    return {head: torch.cat([part[head] for part in parts]).sigmoid().cpu().numpy() for head in HEADS}


@torch.no_grad()
def embedded_views(
    net: CrossEgoVideoLocationNet, clips: Clips, moments: Moments, pooling: Pooling
) -> NDArray[np.float32] | None:
    """The unit vectors of all views present, moment by moment; None for a net that makes none."""
    net.eval()
    parts = [_watched(net, clips, moments.take(chosen), pooling).contrastive for chosen in _slices(len(moments))]
    embeddings = [part.embeddings for part in parts if part is not None]
    return torch.cat(embeddings).cpu().numpy() if embeddings else None


def _watched(net: CrossEgoVideoLocationNet, clips: Clips, moments: Moments, pooling: Pooling) -> LocationOutput:
    return watch(net, views(net, clips, moments, pooling), moments)


def _slices(count: int) -> list[NDArray[np.int64]]:
    return np.split(np.arange(count), range(_AT_ONCE, count, _AT_ONCE))
