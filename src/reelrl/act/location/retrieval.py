"""Given one player's view, find a teammate's view of the same moment among the others: how often, and how high up?

A ranking can be easy for the wrong reason: views of other matches look different anyway. So the wrong candidates
can be limited to the same match at other times, or to other matches, and each told apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch

from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from torch import Tensor

Candidates = Literal["all", "same-match", "other-matches"]


@dataclass(frozen=True)
class Retrieval:
    """Shares of queries from 0 to 1; NaN where no query had both a right and a wrong candidate.

    A wrong candidate that scores as high as the best right one is placed before it: a net that gives all views one
    embedding finds nothing. `chance` is top-1 of a random order.
    """

    top1: float = math.nan
    top3: float = math.nan
    top5: float = math.nan
    mrr: float = math.nan
    chance: float = math.nan
    queries: int = 0


@torch.no_grad()
def retrieval(
    scores: Tensor, moments: Tensor, matches: Tensor | None = None, candidates: Candidates = "all"
) -> Retrieval:
    """How well scores [N, N] (cosines or logits; a row is a query) find views of the same moment [N].

    A view is no candidate of its own. `matches` [N] is needed to tell candidates of one match from those of others.
    """
    right, wrong = _candidates(scores, moments, matches, candidates)
    asked = right.any(1) & wrong.any(1)
    scores, right, wrong = scores[asked], right[asked], wrong[asked]
    count = len(scores)
    if not count:
        return Retrieval()
    best = scores.masked_fill(~right, -torch.inf).amax(1, keepdim=True)
    rank = 1 + ((scores >= best) & wrong).sum(1)
    rights, wrongs = right.sum(1).double(), wrong.sum(1).double()
    return Retrieval(
        top1=_share(rank <= 1),
        top3=_share(rank <= 3),
        top5=_share(rank <= 5),
        mrr=_share(1 / rank.double()),
        chance=_share(rights / (rights + wrongs)),
        queries=count,
    )


def _candidates(
    scores: Tensor, moments: Tensor, matches: Tensor | None, candidates: Candidates
) -> tuple[Tensor, Tensor]:
    if scores.dim() != 2 or scores.shape != (len(moments), len(moments)) or moments.dim() != 1:
        raise ConfigError(
            f"scores have shape {tuple(scores.shape)} and moments {tuple(moments.shape)}; give [N, N] and [N]"
        )
    if scores.isnan().any():
        raise InvalidStateError("scores hold NaN, which has no place in a ranking; look at the embeddings")
    if candidates not in get_args(Candidates):
        raise ConfigError(f"candidates are {candidates!r}; give one of {', '.join(get_args(Candidates))}")
    same = moments[:, None] == moments
    wrong = ~same
    if candidates != "all":
        if matches is None or matches.shape != moments.shape:
            given = "none" if matches is None else f"shape {tuple(matches.shape)}"
            raise ConfigError(f"candidates {candidates!r} need the match of each view [N], and there is {given}")
        one_match = matches[:, None] == matches
        wrong &= one_match if candidates == "same-match" else ~one_match
    itself = torch.eye(len(moments), dtype=torch.bool, device=moments.device)
    return same & ~itself, wrong


def _share(values: Tensor) -> float:
    return float(values.double().mean())
