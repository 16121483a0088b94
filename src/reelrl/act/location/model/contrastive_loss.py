"""Cross-ego contrastive learning: views of one moment come together, views of other moments go apart.

    embeddings [N, input_dim] ─► projector ─► L2 norm ─► z [N, proj_dim]
    logits = temperature * z zᵀ + bias                      label 1: same moment; 0: another one
    loss   = mean over rows of  Σ over pairs of  -log sigmoid(±logit)

The N views are those of the players alive, of all moments in a batch, one after the other: no padding. Labels by
moment make blocks on the diagonal when teams stand together, and need no order. The loss is that of SigLIP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from reelrl.act.location.retrieval import retrieval
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from reelrl.act.location.retrieval import Retrieval


@dataclass(frozen=True, eq=False)
class ContrastiveOutput:
    """What the players' views became, and how well they agree."""

    embeddings: Tensor = field(repr=False)
    """[N, proj_dim], of length 1."""
    loss: Tensor
    logits: Tensor = field(repr=False)
    """[N, N]."""
    temperature: Tensor
    bias: Tensor
    """Both to be told: without a gradient."""
    moments: Tensor = field(repr=False)

    @cached_property
    def retrieval(self) -> Retrieval:
        """Among the views of this batch; computed when it is first asked for."""
        return retrieval(self.logits.detach(), self.moments)


class Projector(nn.Sequential):
    """From an encoder's embedding [N, input_dim], of any scale, to [N, proj_dim]; each view by itself."""

    def __init__(self, input_dim: int, hidden_dim: int, proj_dim: int) -> None:
        super().__init__(
            nn.LayerNorm(input_dim), nn.Linear(input_dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, proj_dim)
        )


class CrossEgoContrastive(nn.Module):
    """Projector and sigmoid loss.

    `init_logit_scale` is the temperature itself (its logarithm is what learns, unless `learnable_temp` is false);
    without a bias (`turn_off_bias`) logits are the scaled cosines. `self_pairs` counts each view as a positive of
    itself, which costs nothing to get right and so teaches nothing but the scale.
    """

    def __init__(
        self,
        input_dim: int,
        proj_dim: int = 128,
        hidden_dim: int = 256,
        *,
        init_logit_scale: float = 10.0,
        init_logit_bias: float = -3.0,
        learnable_temp: bool = True,
        turn_off_bias: bool = False,
        self_pairs: bool = False,
    ) -> None:
        super().__init__()
        for name, size in (("input_dim", input_dim), ("proj_dim", proj_dim), ("hidden_dim", hidden_dim)):
            if size < 1:
                raise ConfigError(f"{name} is {size}; give 1 or more")
        if not (math.isfinite(init_logit_scale) and init_logit_scale > 0):
            raise ConfigError(f"init_logit_scale is {init_logit_scale}; it multiplies cosines, so give one above 0")
        if not math.isfinite(init_logit_bias):
            raise ConfigError(f"init_logit_bias is {init_logit_bias}; give a finite number, -3 if unsure")
        self.input_dim, self.proj_dim, self.self_pairs = input_dim, proj_dim, self_pairs
        self.projector = Projector(input_dim, hidden_dim, proj_dim)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(init_logit_scale)), requires_grad=learnable_temp)
        bias = 0.0 if turn_off_bias else init_logit_bias
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=not turn_off_bias)

    def embed(self, embeddings: Tensor) -> Tensor:
        """Views [N, input_dim] as unit vectors [N, proj_dim]; needs no teammates."""
        if embeddings.dim() != 2 or embeddings.shape[1] != self.input_dim:
            raise ConfigError(f"embeddings have shape {tuple(embeddings.shape)}; give [N, {self.input_dim}]")
        if not embeddings.isfinite().all():
            raise InvalidStateError("embeddings are not all finite; look at the encoder, or at its learning rate")
        return normalize(self.projector(embeddings), dim=1)

    def forward(self, embeddings: Tensor, moments: Tensor, leave_out: Tensor | None = None) -> ContrastiveOutput:
        """Compare views [N, input_dim] of moments [N], any whole numbers; pairs in `leave_out` [N, N] do not count."""
        if moments.shape != embeddings.shape[:1] or moments.is_floating_point():
            raise ConfigError(
                f"moments are {moments.dtype} of shape {tuple(moments.shape)}; "
                f"give one whole number for each of the {len(embeddings)} views"
            )
        z = self.embed(embeddings)
        temperature = self.log_temperature.exp()
        logits = temperature * (z @ z.T) + self.bias
        loss = sigmoid_loss(logits, moments, self_pairs=self.self_pairs, leave_out=leave_out)
        return ContrastiveOutput(z, loss, logits, temperature.detach(), self.bias.detach().clone(), moments)


def sigmoid_loss(
    logits: Tensor, moments: Tensor, *, self_pairs: bool = False, leave_out: Tensor | None = None
) -> Tensor:
    """Mean over rows of the summed loss of their pairs; 0 where there are no pairs."""
    same = moments[:, None] == moments
    counted = torch.ones_like(same)
    if not self_pairs:
        counted.fill_diagonal_(fill_value=False)
    if leave_out is not None:
        if leave_out.shape != logits.shape or leave_out.dtype is not torch.bool:
            raise ConfigError(
                f"leave_out is {leave_out.dtype} of shape {tuple(leave_out.shape)}; give bool {tuple(logits.shape)}"
            )
        counted &= ~leave_out
    losses = -logsigmoid(torch.where(same, logits, -logits))
    return (losses * counted).sum() / max(len(logits), 1)
