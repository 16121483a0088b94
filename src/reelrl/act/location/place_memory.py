"""A memory of the map, and answers read off it: what eyes say of each place, frame by frame, to who is where.

    readings [N, T, places, F] ─► PlaceMemory ─► [N, T, places, M]            each view alone, each frame once
    [B, A, places, M] ─► fused over the agents, place by place ─► layers over the places ─► logits {head: [B, places]}

All places share their weights, and learn from each other which are neighbours: what happened in one room teaches about
all of them. A net that sees a place as eight numbers of a long list learns each room by heart instead, and little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.act.location.fuser import AgentFuser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.act.location.net_settings import LocationNetSettings

_CONTEXT = 32  # numbers about the whole map that every place hears
_NAME = 16  # numbers that tell a place from others


class PlaceMemory(nn.Module):
    """A gated recurrent unit for each place, all with the same weights, which hear of each other at every step."""

    def __init__(self, places: int, features: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.about = nn.Linear(features, width)
        self.around = nn.Linear(places * features, _CONTEXT)
        self.name = nn.Parameter(torch.randn(places, _NAME) * 0.1)
        self.neighbours = Neighbours(places, width)
        self.from_now = nn.Linear(width + _CONTEXT + _NAME, 3 * width)
        self.from_before = nn.Linear(2 * width, 3 * width)

    def forward(self, readings: Tensor) -> Tensor:
        """What is remembered after each frame: [N, T, places, width] from [N, T, places, features]."""
        around = self.around(readings.flatten(2)).relu()[:, :, None].expand(*readings.shape[:3], -1)
        name = self.name.expand(*readings.shape[:2], -1, -1)
        now = self.from_now(torch.cat([self.about(readings).relu(), around, name], -1))
        state = readings.new_zeros(len(readings), readings.shape[2], self.width)
        states = []
        for seen in now.unbind(1):
            before = self.from_before(torch.cat([state, self.neighbours(state)], -1))
            reset, keep = (seen + before)[..., : 2 * self.width].sigmoid().chunk(2, -1)
            new = (seen[..., 2 * self.width :] + reset * before[..., 2 * self.width :]).tanh()
            state = new + keep * (state - new)
            states.append(state)
        return torch.stack(states, 1)


class Neighbours(nn.Module):
    """What places hear of each other [N, places, width], in several ways of being near, which are learned."""

    def __init__(self, places: int, width: int, ways: int = 4) -> None:
        super().__init__()
        self.near = nn.Parameter(torch.randn(ways, places, places) * 0.1)
        self.told = nn.Linear(width, width)

    def forward(self, state: Tensor) -> Tensor:
        told = torch.unflatten(self.told(state), -1, (len(self.near), -1))
        return torch.einsum("kpq,nqke->npke", self.near, told).flatten(2)


class PlaceReader(nn.Module):
    """What several views remember of each place, fused and asked by every head."""

    def __init__(self, settings: LocationNetSettings, heads: Sequence[str]) -> None:
        super().__init__()
        width = settings.hidden_dim
        self.view = nn.Linear(settings.proj_dim, settings.memory_dim)
        self.fuser = AgentFuser(
            settings.fusion, settings.memory_dim, settings.fused_agent_dim, num_agents=settings.num_agents
        )
        self.team = nn.Linear(settings.fused_agent_dim, width)
        self.name = nn.Parameter(torch.randn(settings.num_places, width) * 0.02)
        self.side = nn.Embedding(2, width) if settings.team_embed_dim else None
        # Who watches alone is asked for the others, and a team for all of it.
        self.alone = nn.Embedding(2, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                nhead=4,
                dim_feedforward=2 * width,
                dropout=settings.dropout,
                activation=getattr(nn.functional, settings.activation),
                batch_first=True,
                norm_first=True,
            )
            for _ in range(settings.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.heads = nn.ModuleDict({head: nn.Linear(width, 1) for head in heads})
        self.usual = nn.ParameterDict({head: torch.zeros(settings.num_places) for head in heads})

    def forward(
        self, remembered: Tensor, z: Tensor, present: Tensor, subset: Tensor, side: Tensor
    ) -> dict[str, Tensor]:
        """Logits [B, places] from memories [N, places, M] and unit vectors z [N, P] of the views `present` [B, A]."""
        tokens = remembered + self.view(z)[:, None]
        everyone = tokens.new_zeros(*present.shape, *tokens.shape[1:])
        everyone[present] = tokens
        places = tokens.shape[1]
        eyes = subset[:, None].expand(-1, places, -1).flatten(0, 1)
        fused = torch.unflatten(self.fuser(everyone.transpose(1, 2).flatten(0, 1), eyes), 0, (-1, places))
        told = self.alone((subset.sum(1) == 1).long())
        if self.side is not None:
            told = told + self.side(side)
        known = self.team(fused) + self.name + told[:, None]
        for layer in self.layers:
            known = layer(known)
        known = self.norm(known)
        return {name: head(known).squeeze(-1) + self.usual[name] for name, head in self.heads.items()}
