"""A memory of everybody, and answers read off it: from what a frame reader says, frame by frame, to who is where.

    readings [N, T, places, F] ─► PlaceMemory ─► [N, T, bodies, places, M]       each view alone, each frame once
    [B, A, bodies, places, M] ─► fused over the agents ─► layers over the places ─► where each body is
                                                                 └─► somebody is there: logits {head: [B, places]}

Bodies are the players, then the enemies. All bodies and all places share their weights: what it means that somebody was
seen in a room some seconds ago, and in another one since, is learned once and not for everybody everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from reelrl.act.location.model.fuser import AgentFuser
from reelrl.act.location.readings import OF_SELF, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.act.location.model.settings import LocationNetSettings

_CONTEXT = 32  # numbers about the whole map that every place hears
_NAME = 16  # numbers that tell a place from others
_KIND = 8  # and players from enemies
_SURE = 1 - 1e-4  # as sure as an answer may be: its logarithm is taken


class PlaceMemory(nn.Module):
    """A gated recurrent unit for each body at each place; those of one body hear of each other at every step."""

    def __init__(self, places: int, players: int, enemies: int, width: int) -> None:
        super().__init__()
        self.players, self.bodies, self.width = players, players + enemies, width
        features = 1 + len(OF_SELF) + 3  # it, those who look, and: how many players, how many enemies, "that is me"
        self.about = nn.Linear(features, width)
        self.around = nn.Linear(places * features + _KIND, _CONTEXT)
        self.name = nn.Parameter(torch.randn(places, _NAME) * 0.1)
        self.kind = nn.Parameter(torch.randn(2, _KIND) * 0.3)
        self.neighbours = Neighbours(places, width)
        self.from_now = nn.Linear(width + _CONTEXT + _NAME, 3 * width)
        self.from_before = nn.Linear(2 * width, 3 * width)

    def forward(self, readings: Tensor, seats: Tensor) -> Tensor:
        """What is remembered after each frame: [N, T, bodies, places, width] from [N, T, places, F].

        `seats` [N] are the numbers of the players whose views these are.
        """
        views, frames, places, _ = readings.shape
        seen = self._of_bodies(readings, seats).flatten(0, 1)  # [N * bodies, T, places, features]
        kind = self.kind[kinds_of(self.players, self.bodies, seen.device)].repeat(views, 1)
        context = torch.cat([seen.flatten(2), kind[:, None].expand(-1, frames, -1)], -1)
        # As one layer over all of it, but what places have in common, and what never changes, is multiplied once.
        about, around, name = torch.split(self.from_now.weight, [self.width, _CONTEXT, _NAME], 1)
        now = self.about(seen).relu() @ about.T + (self.around(context).relu() @ around.T)[:, :, None]
        now = now + (self.name @ name.T + self.from_now.bias)
        state = readings.new_zeros(len(seen), places, self.width)
        states = []
        for inputs in now.unbind(1):
            before = self.from_before(torch.cat([state, self.neighbours(state)], -1))
            reset, keep = (inputs + before)[..., : 2 * self.width].sigmoid().chunk(2, -1)
            new = (inputs[..., 2 * self.width :] + reset * before[..., 2 * self.width :]).tanh()
            state = new + keep * (state - new)
            states.append(state)
        return torch.unflatten(torch.stack(states, 1), 0, (views, self.bodies)).transpose(1, 2)

    def _of_bodies(self, readings: Tensor, seats: Tensor) -> Tensor:
        """What is said of each body at each place [N, bodies, T, places, features]."""
        own, bodies = split(readings)
        many = torch.stack([bodies[..., : self.players].sum(-1), bodies[..., self.players :].sum(-1)], -1)
        common = torch.cat([own, many], -1)[:, None].expand(-1, self.bodies, -1, -1, -1)
        me = (seats[:, None] == torch.arange(self.bodies, device=seats.device)).to(readings)
        me = me[:, :, None, None, None].expand(*common.shape[:-1], 1)
        return torch.cat([bodies.permute(0, 3, 1, 2)[..., None], common, me], -1)


class Neighbours(nn.Module):
    """What places hear of each other [N, places, width], in several ways of being near, which are learned."""

    def __init__(self, places: int, width: int, ways: int = 4) -> None:
        super().__init__()
        self.near = nn.Parameter(torch.randn(ways, places, places) * 0.1)
        self.told = nn.Linear(width, width)  # called so in weights, whose names stay

    def forward(self, state: Tensor) -> Tensor:
        messages = torch.unflatten(self.told(state), -1, (len(self.near), -1))
        return torch.einsum("kpq,nqke->npke", self.near, messages).flatten(2)


class Read(NamedTuple):
    """What a `PlaceReader` says."""

    logits: dict[str, Tensor]
    """By head, [B, places]: that somebody is there."""
    bodies: Tensor
    """[B, bodies, places + 1, 2]: logarithms of the chance that a body is there, the last being nowhere; now, ahead."""


class PlaceReader(nn.Module):
    """What several views remember of each body at each place, fused and asked by every head."""

    def __init__(self, settings: LocationNetSettings, heads: Sequence[str]) -> None:
        super().__init__()
        width = settings.hidden_dim
        self.players, self.enemies = settings.players or 1, settings.enemies or 1
        self.view = nn.Linear(settings.proj_dim, settings.memory_dim)
        self.fuser = AgentFuser(settings.memory_dim, settings.num_agents, settings.fusion, settings.fused_agent_dim)
        self.team = nn.Linear(settings.fused_agent_dim, width)
        self.name = nn.Parameter(torch.randn(settings.num_places, width) * 0.02)
        self.kind = nn.Embedding(2, width)
        self.side = nn.Embedding(2, width) if settings.team_embed_dim else None
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
        self.here, self.gone = nn.Linear(width, 2), nn.Linear(width, 2)
        self.usual = nn.Parameter(torch.zeros(2, settings.num_places, 2))
        self.heads = tuple(heads)

    def forward(self, remembered: Tensor, z: Tensor, present: Tensor, subset: Tensor, side: Tensor) -> Read:
        """From memories [N, bodies, places, M] and unit vectors z [N, P] of the views `present` [B, A]."""
        tokens = remembered + self.view(z)[:, None, None]
        everyone = tokens.new_zeros(*present.shape, *tokens.shape[1:])
        everyone[present] = tokens
        rows, (bodies, places) = len(present), tokens.shape[1:3]
        present = subset[:, None].expand(-1, bodies * places, -1).flatten(0, 1)
        fused = self.fuser(everyone.flatten(2, 3).transpose(1, 2).flatten(0, 1), present)
        kinds = kinds_of(self.players, bodies, tokens.device)
        asked = self.alone((subset.sum(1) == 1).long())[:, None] + self.kind(kinds)
        if self.side is not None:
            asked = asked + self.side(side)[:, None]
        known = torch.unflatten(self.team(fused), 0, (-1, places)) + self.name + asked.flatten(0, 1)[:, None]
        for layer in self.layers:
            known = layer(known)
        known = self.norm(known)
        here = torch.unflatten(self.here(known), 0, (rows, bodies)) + self.usual[kinds]
        gone = torch.unflatten(self.gone(known.mean(1)), 0, (rows, bodies))
        where = torch.cat([here, gone[:, :, None]], 2).log_softmax(2)
        chance = where[:, :, :-1].exp()
        if self.enemies == 1:  # many that are not told apart can be at several places
            chance = torch.cat([chance[:, : self.players], here[:, self.players :].sigmoid()], 1)
        return Read(self._somebody(chance, subset), where)

    def _somebody(self, chance: Tensor, subset: Tensor) -> dict[str, Tensor]:
        """Logits that a place is not empty, by head: mates now, enemies now, and both ahead."""
        empty = torch.log1p(-chance.clamp(max=_SURE))
        # Who watches alone is asked for the others, and a team for all of it.
        alone = subset & (subset.sum(1, keepdim=True) == 1)
        asked = ~nn.functional.pad(alone, (0, self.players - alone.shape[1]))
        mates = (empty[:, : self.players] * asked[..., None, None]).sum(1)
        enemies = empty[:, self.players :].sum(1)
        empty = torch.stack([mates, enemies], -1).clamp(max=_SURE - 1)  # [B, places, now and ahead, mates and enemies]
        logits = torch.log(-torch.expm1(empty)) - empty
        return dict(zip(self.heads, logits.flatten(2).unbind(-1), strict=True))


def kinds_of(players: int, bodies: int, device: torch.device) -> Tensor:
    """0 for each of the players, 1 for each of the enemies."""
    return (torch.arange(bodies, device=device) >= players).long()
