"""Many agents' embeddings to one of the team.

mean, max     over the agents that are there
concat        each agent in its own seat, empty seats zero: the only kind for which the order matters
attention     a weighted mean; the agents' own embeddings decide the weights
transformer   agents look at each other, and a token of its own looks at them
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from reelrl.errors import ConfigError
from reelrl.names import did_you_mean

Fusion = Literal["mean", "max", "concat", "attention", "transformer"]


class AgentFuser(nn.Module):
    """Embeddings z [B, A, embed_dim] of the agents that are `present` [B, A], or of all, to [B, fused_dim].

    What stands in the place of an absent agent is never read, be it NaN. Only `concat` knows the number of agents
    beforehand, `num_agents`; it takes fewer, not more. `fused_dim` is `embed_dim` if not given; `heads` are those of
    attention and transformer.
    """

    def __init__(
        self,
        embed_dim: int,
        num_agents: int,
        fusion: Fusion = "mean",
        fused_dim: int | None = None,
        *,
        heads: int = 4,
    ) -> None:
        super().__init__()
        fused_dim = embed_dim if fused_dim is None else fused_dim
        if fusion not in get_args(Fusion):
            raise ConfigError(f"fusion is {fusion!r}{did_you_mean(str(fusion), get_args(Fusion))}")
        sizes = {"embed_dim": embed_dim, "num_agents": num_agents, "fused_dim": fused_dim, "heads": heads}
        for name, size in sizes.items():
            if size < 1:
                raise ConfigError(f"{name} is {size}; give 1 or more")
        if fusion in {"attention", "transformer"} and embed_dim % heads:
            raise ConfigError(f"embed_dim = {embed_dim} does not divide by heads = {heads}, as {fusion} needs")
        self.fusion, self.embed_dim, self.num_agents = fusion, embed_dim, num_agents
        if fusion == "attention":
            self.scores, self.values = nn.Linear(embed_dim, heads), nn.Linear(embed_dim, embed_dim)
        if fusion == "transformer":
            self.team_token = nn.Parameter(torch.randn(embed_dim) * 0.02)
            self.layer = nn.TransformerEncoderLayer(
                embed_dim, heads, 2 * embed_dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
        # The norm: embeddings of length 1 and embeddings of any length should be equally easy to learn from.
        self.out = nn.Sequential(
            nn.Linear(embed_dim * (num_agents if fusion == "concat" else 1), fused_dim), nn.LayerNorm(fused_dim)
        )

    def forward(self, z: Tensor, present: Tensor | None = None) -> Tensor:
        """[B, fused_dim]"""
        if present is None:
            present = torch.ones(z.shape[:2], dtype=torch.bool, device=z.device)
        self._check(z, present)
        z = z.masked_fill(~present[..., None], 0)
        fused: Tensor = self.out(getattr(self, f"_{self.fusion}")(z, present))
        return fused

    def _mean(self, z: Tensor, present: Tensor) -> Tensor:
        return z.sum(1) / present.sum(1, keepdim=True)

    def _max(self, z: Tensor, present: Tensor) -> Tensor:
        return z.masked_fill(~present[..., None], -torch.inf).amax(1)

    def _concat(self, z: Tensor, present: Tensor) -> Tensor:
        empty = self.num_agents - present.shape[1]
        return nn.functional.pad(z, (0, 0, 0, empty)).flatten(1)

    def _attention(self, z: Tensor, present: Tensor) -> Tensor:
        weights = self.scores(z).masked_fill(~present[..., None], -torch.inf).softmax(1)
        values = self.values(z).unflatten(2, (weights.shape[2], -1))
        team: Tensor = (weights[..., None] * values).sum(1).flatten(1)
        return team

    def _transformer(self, z: Tensor, present: Tensor) -> Tensor:
        tokens = torch.cat([self.team_token.expand(len(z), 1, -1), z], 1)
        absent = nn.functional.pad(~present, (1, 0), value=False)
        team: Tensor = self.layer(tokens, src_key_padding_mask=absent)[:, 0]
        return team

    def _check(self, z: Tensor, present: Tensor) -> None:
        if z.dim() != 3 or z.shape[2] != self.embed_dim or z.shape[1] < 1:
            raise ConfigError(f"embeddings have shape {tuple(z.shape)}; give [B, agents, {self.embed_dim}]")
        if present.shape != z.shape[:2] or present.dtype is not torch.bool:
            raise ConfigError(
                f"present is {present.dtype} of shape {tuple(present.shape)}; give bool {tuple(z.shape[:2])}"
            )
        if self.fusion == "concat" and z.shape[1] > self.num_agents:
            raise ConfigError(
                f"{z.shape[1]} agents are given, and this concat has {self.num_agents} seats; set num_agents, "
                "or use another fusion"
            )
        nobody = ~present.any(1)
        if nobody.any():
            row = int(nobody.nonzero()[0, 0])
            raise ConfigError(f"row {row} has no agent present; leave out moments that nobody sees")
