"""Cross-ego contrastive learning: views of one moment come together, views of other moments go apart.

    embeddings [N, embed_dim] ─► projector ─► L2 norm ─► z [N, proj_dim]
    logits = temperature * z zᵀ + bias                      label 1: same moment; 0: another one
    loss   = mean over rows of  Σ over pairs of  -log sigmoid(±logit)

The N views are those of the players alive, of all moments in a batch, one after the other: no padding. Labels by
moment make blocks on the diagonal when teams stand together, and need no order. Teams that are all there may come as
[B, A, embed_dim], a moment to a row. The loss is that of SigLIP; `softmax` asks instead which of all others are views
of the same moment, and learns faster from few hundreds of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from reelrl.act.location.retrieval import retrieval
from reelrl.errors import ConfigError, InvalidStateError
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from reelrl.act.location.retrieval import Retrieval

ContrastiveLoss = Literal["sigmoid", "softmax"]


@dataclass(frozen=True, eq=False)
class ContrastiveOutput:
    """What the players' views became, and how well they agree."""

    embeddings: Tensor = field(repr=False)
    """[N, proj_dim], of length 1; [B, A, proj_dim] where teams were given, zero for who is not present."""
    loss: Tensor
    logits: Tensor = field(repr=False)
    """[N, N], of the views that are there, row by row."""
    temperature: Tensor
    bias: Tensor
    """Both to be told: without a gradient."""
    moments: Tensor = field(repr=False)

    @cached_property
    def retrieval(self) -> Retrieval:
        """Among the views of this batch; computed when it is first asked for."""
        return retrieval(self.logits.detach(), self.moments)


class Projector(nn.Sequential):
    """From an encoder's embedding [N, embed_dim], of any scale, to [N, proj_dim]; each view by itself."""

    def __init__(self, embed_dim: int, hidden_dim: int, proj_dim: int) -> None:
        super().__init__(
            nn.LayerNorm(embed_dim), nn.Linear(embed_dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, proj_dim)
        )


class CrossEgoContrastive(nn.Module):
    """Projector and sigmoid loss: `CrossEgoContrastive(256)(embeddings)` for embeddings [B, A, 256] of B teams.

    The projector is as wide as what comes in, unless `proj_dim` and `hidden_dim` say otherwise.

    `init_logit_scale` is the temperature itself (its logarithm is what learns, unless `learnable_temp` is false);
    without a bias (`turn_off_bias`) logits are the scaled cosines. `self_pairs` counts each view as a positive of
    itself, which costs nothing to get right and so teaches nothing but the scale.
    """

    def __init__(
        self,
        embed_dim: int,
        proj_dim: int | None = None,
        hidden_dim: int | None = None,
        *,
        init_logit_scale: float = 10.0,
        init_logit_bias: float = -3.0,
        learnable_temp: bool = True,
        turn_off_bias: bool = False,
        self_pairs: bool = False,
        loss: ContrastiveLoss = "sigmoid",
    ) -> None:
        super().__init__()
        if loss not in get_args(ContrastiveLoss):
            raise ConfigError(f"loss is {loss!r}{did_you_mean(str(loss), get_args(ContrastiveLoss))}")
        proj_dim = embed_dim if proj_dim is None else proj_dim
        hidden_dim = embed_dim if hidden_dim is None else hidden_dim
        for name, size in (("embed_dim", embed_dim), ("proj_dim", proj_dim), ("hidden_dim", hidden_dim)):
            if size < 1:
                raise ConfigError(f"{name} is {size}; give 1 or more")
        if not (math.isfinite(init_logit_scale) and init_logit_scale > 0):
            raise ConfigError(f"init_logit_scale is {init_logit_scale}; it multiplies cosines, so give one above 0")
        if not math.isfinite(init_logit_bias):
            raise ConfigError(f"init_logit_bias is {init_logit_bias}; give a finite number, -3 if unsure")
        self.embed_dim, self.proj_dim, self.self_pairs = embed_dim, proj_dim, self_pairs
        self.loss_kind = loss
        self.projector = Projector(embed_dim, hidden_dim, proj_dim)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(init_logit_scale)), requires_grad=learnable_temp)
        bias = 0.0 if turn_off_bias else init_logit_bias
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=not turn_off_bias)

    def embed(self, embeddings: Tensor) -> Tensor:
        """Views [..., embed_dim] as unit vectors [..., proj_dim]; needs no teammates."""
        if embeddings.dim() not in {2, 3} or embeddings.shape[-1] != self.embed_dim:
            raise ConfigError(
                f"embeddings have shape {tuple(embeddings.shape)}; give [N, {self.embed_dim}], or [B, agents, "
                f"{self.embed_dim}] of whole teams"
            )
        if not embeddings.isfinite().all():
            raise InvalidStateError("embeddings are not all finite; look at the encoder, or at its learning rate")
        return normalize(self.projector(embeddings), dim=-1)

    def forward(
        self,
        embeddings: Tensor,
        moments: Tensor | None = None,
        leave_out: Tensor | None = None,
        present: Tensor | None = None,
    ) -> ContrastiveOutput:
        """Compare the views of several moments.

        Teams [B, A, embed_dim]: a moment to a row, unless `moments` [B] say otherwise; `present` [B, A] says who is
        there. Single views [N, embed_dim] need the moment [N] of each, any whole numbers. Pairs in `leave_out` [N, N]
        do not count.
        """
        if embeddings.dim() == 3:
            return self._teams(embeddings, moments, leave_out, present)
        if moments is None or moments.shape != embeddings.shape[:1] or moments.is_floating_point():
            given = "none" if moments is None else f"{moments.dtype} of shape {tuple(moments.shape)}"
            raise ConfigError(f"moments are {given}; give one whole number for each of the {len(embeddings)} views")
        z = self.embed(embeddings)
        temperature = self.log_temperature.exp()
        logits = temperature * (z @ z.T) + self.bias
        if self.loss_kind == "softmax":
            loss = softmax_loss(logits, moments, leave_out=leave_out)
        else:
            loss = sigmoid_loss(logits, moments, self_pairs=self.self_pairs, leave_out=leave_out)
        return ContrastiveOutput(z, loss, logits, temperature.detach(), self.bias.detach().clone(), moments)

    def _teams(
        self, embeddings: Tensor, moments: Tensor | None, leave_out: Tensor | None, present: Tensor | None
    ) -> ContrastiveOutput:
        teams, device = embeddings.shape[:2], embeddings.device
        if present is None:
            present = torch.ones(teams, dtype=torch.bool, device=device)
        if present.shape != teams or present.dtype is not torch.bool:
            raise ConfigError(f"present is {present.dtype} of shape {tuple(present.shape)}; give bool {tuple(teams)}")
        if moments is None:
            moments = torch.arange(len(embeddings), device=device)
        if moments.shape != teams[:1]:
            raise ConfigError(f"moments have shape {tuple(moments.shape)}; give one for each of {teams[0]} rows")
        output: ContrastiveOutput = self(embeddings[present], moments[:, None].expand(teams)[present], leave_out)
        z = output.embeddings.new_zeros(*teams, self.proj_dim).masked_scatter(present[..., None], output.embeddings)
        return replace(output, embeddings=z)


def sigmoid_loss(
    logits: Tensor, moments: Tensor, *, self_pairs: bool = False, leave_out: Tensor | None = None
) -> Tensor:
    """Mean over rows of the summed loss of their pairs; 0 where there are no pairs."""
    same, counted = _pairs(logits, moments, leave_out, self_pairs=self_pairs)
    losses = -logsigmoid(torch.where(same, logits, -logits))
    return (losses * counted).sum() / max(len(logits), 1)


def softmax_loss(logits: Tensor, moments: Tensor, *, leave_out: Tensor | None = None) -> Tensor:
    """Nats to name a view of the same moment among all others, the mean over such views and over rows that have one."""
    same, counted = _pairs(logits, moments, leave_out, self_pairs=False)
    right = same & counted
    asked = right.any(1)
    if not asked.any():
        return logits.sum() * 0
    shares = logits.masked_fill(~counted, -torch.inf).log_softmax(1)
    named = torch.where(right, shares, 0).sum(1)[asked] / right.sum(1)[asked]
    return -named.mean()


def _pairs(logits: Tensor, moments: Tensor, leave_out: Tensor | None, *, self_pairs: bool) -> tuple[Tensor, Tensor]:
    """Which pairs [N, N] are of one moment, and which count."""
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
    return same, counted
