"""The scale-free policy: a tower reads the context, a small net with the same weights for every rung scores it.

Each rung's score also depends on the others through their mean and maximum, so that "the highest that is safe" can be
told from "the second highest". The critic, thrown away after training, sees the link's future as well.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reelrl.stream.controllers.network import HINT_EDGES_S
from reelrl.stream.scalefree.sizes import CONTEXT, RUNG

NEVER = -1e9
"""The logit of a rung that pads a shorter ladder."""
HINTS = 2 * (len(HINT_EDGES_S) - 1)
"""What the critic sees of the future: see `players.future`."""


class ScaleFreePolicy(nn.Module):
    """Actor and critic over flat observations: context, then the rungs, then which of them are there (`packed`)."""

    def __init__(self, hidden: int = 128, rung_hidden: int = 48) -> None:
        super().__init__()
        self.hidden, self.rung_hidden = hidden, rung_hidden
        self.actor = nn.ModuleDict(
            {
                "context": _tower(CONTEXT, hidden, hidden),
                "rung": nn.Linear(RUNG, rung_hidden),
                "rung_context": nn.Linear(hidden, rung_hidden, bias=False),
                "mix": nn.Linear(rung_hidden, rung_hidden),
                "mix_all": nn.Linear(2 * rung_hidden, rung_hidden, bias=False),
                "score": nn.Linear(rung_hidden, 1),
            }
        )
        nn.init.normal_(self.actor["score"].weight, std=0.01)  # type: ignore[arg-type]
        self.critic = nn.Sequential(_tower(CONTEXT + HINTS, 2 * hidden, 2 * hidden), nn.Linear(2 * hidden, 1))
        self.spread = nn.Sequential(nn.Linear(CONTEXT, 32), nn.SiLU(), nn.Linear(32, 1))

    def scores(self, context: Tensor, rungs: Tensor, present: Tensor) -> Tensor:
        """Preference for each rung, (players, rungs)."""
        net = self.actor
        summary = net["context"](context)
        each = nn.functional.silu(net["rung"](rungs) + net["rung_context"](summary)[:, None])
        there = present[:, :, None] > 0
        mean = torch.where(there, each, 0.0).sum(1) / present.sum(1, keepdim=True)
        together = torch.cat([mean, torch.where(there, each, -1e4).amax(1)], dim=1)
        mixed = nn.functional.silu(net["mix"](each) + net["mix_all"](together)[:, None])
        return torch.where(present > 0, net["score"](mixed)[:, :, 0].float(), NEVER)

    def logits(self, observations: Tensor) -> Tensor:
        """`scores` of packed observations."""
        return self.scores(*unpacked(observations))

    def value(self, observations: Tensor, hints: Tensor) -> Tensor:
        """Expected return, compressed, (players,)."""
        value: Tensor = self.critic(torch.cat([observations[:, :CONTEXT], hints], dim=1))
        return value[:, 0]

    def log_spread(self, observations: Tensor) -> Tensor:
        """Logarithm of the usual size of an advantage here, (players,)."""
        spread: Tensor = self.spread(observations[:, :CONTEXT])
        return spread[:, 0]


def packed(context: Tensor, rungs: Tensor, present: Tensor) -> Tensor:
    """One row per player."""
    return torch.cat([context, rungs.flatten(1), present.to(context.dtype)], dim=1)


def unpacked(observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Context, rungs, and which rungs there are."""
    count = (observations.shape[1] - CONTEXT) // (RUNG + 1)
    end = CONTEXT + count * RUNG
    return observations[:, :CONTEXT], observations[:, CONTEXT:end].reshape(-1, count, RUNG), observations[:, end:]


def make_scale_free(hidden: int, seed: int, device: torch.device) -> ScaleFreePolicy:
    """A fresh policy whose weights depend on the seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ScaleFreePolicy(hidden).to(device)


def _tower(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, following in ((inputs, hidden), (hidden, hidden), (hidden, outputs)):
        linear = nn.Linear(width, following)
        nn.init.orthogonal_(linear.weight, 1.4)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.SiLU()]
    return nn.Sequential(*layers)
