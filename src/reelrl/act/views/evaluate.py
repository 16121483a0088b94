"""What do frozen embeddings of one view know of who is where, and how many labels does it take to ask them?

    evaluation = evaluate(asked, encoders, shares=(0.01, 0.05, 0.2, 1.0))
    evaluation.interval("contrastive", "linear", 0.05, "mates now")

Every encoder answers about the same views; probes learn from the same labelled moments of the training matches. Seeds
are three: of the encoder where there are several, and of which moments have labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from reelrl.act.location.embeddings import Clips
from reelrl.act.location.retrieval_scores import KINDS, RetrievalScore, score_retrieval, spaced
from reelrl.act.location.scores import Counts, Floats, drawings, interval, over_seeds
from reelrl.act.views.asked import AskedViews
from reelrl.act.views.probes import PROBES, ProbedViews, fit_and_answer
from reelrl.act.views.questions import NAMES
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from reelrl.act.location.samples import Moments
    from reelrl.act.views.encoders import FrozenViews
    from reelrl.report.intervals import Interval

    Scores = dict[tuple[str, float, str], Floats]
    """By probe, share of labels and question."""

PRIOR = "prior"
MEAN = "mean"
SEEDS = 3
APART_S = 2.0
"""Moments of a match that retrieval tells apart: nearer ones show nearly the same."""
FEWEST = 5
"""Test matches below which no interval is given: drawn again, so few say nothing about others."""


@dataclass(frozen=True, eq=False)
class ViewsEvaluation:
    """Scores by encoder, probe, share of labels and question: [drawings], the first being what was measured."""

    asked: AskedViews
    labelled: dict[float, int]
    """How many training views have labels, by share."""
    encoders: list[str]
    widths: dict[str, int] = field(default_factory=dict)
    scores: dict[tuple[str, str, float, str], Floats] = field(default_factory=dict, repr=False)
    retrieval: list[RetrievalScore] = field(default_factory=list)

    @property
    def shares(self) -> list[float]:
        return list(self.labelled)

    @property
    def matches(self) -> int:
        return len(self.asked.moments[self.asked.split].matches)

    @property
    def sure(self) -> bool:
        """Whether there are enough matches for intervals."""
        return self.matches >= FEWEST

    def interval(self, encoder: str, probe: str, share: float, question: str = MEAN) -> Interval:
        return interval(self.scores[encoder, probe, share, question])

    def difference(self, encoder: str, other: str, probe: str, share: float, question: str = MEAN) -> Interval:
        """How much higher than another one, on the same drawings of matches."""
        return interval(self.scores[encoder, probe, share, question] - self.scores[other, probe, share, question])

    def add(self, name: str, seeds: Sequence[Scores]) -> None:
        for probe in PROBES:
            for share in self.shares:
                each = {question: over_seeds([seed[probe, share, question] for seed in seeds]) for question in NAMES}
                for question, values in each.items():
                    self.scores[name, probe, share, question] = values
                self.scores[name, probe, share, MEAN] = np.mean(list(each.values()), axis=0)


def evaluate(asked: AskedViews, encoders: Sequence[FrozenViews], shares: Sequence[float]) -> ViewsEvaluation:
    """Ask every encoder about every view, and find mates' views by each."""
    labelled = {share: len(asked.with_labels(share, 0)) for share in shares}
    evaluation = ViewsEvaluation(asked, labelled, [each.name for each in encoders])
    weights = drawings(evaluation.matches)
    evaluation.add(PRIOR, [_prior(asked, shares, weights)])
    with Progress("probe", len(encoders) * SEEDS, unit="encoders") as progress:
        for encoder in encoders:
            scores: list[Scores] = []
            for seed in range(SEEDS):
                if seed < len(encoder.stores):
                    seen = _opened(asked, encoder, seed)
                evaluation.widths[encoder.name] = seen["train"].width("last")
                scores.append(_probed(asked, seen, shares, seed, weights))
                progress.update()
            evaluation.add(encoder.name, scores)
            evaluation.retrieval.extend(_retrieval(asked, encoder))
    return evaluation


def _opened(asked: AskedViews, encoder: FrozenViews, seed: int) -> dict[str, Clips]:
    """The embeddings of all rows of all matches, made now if they are not cached."""
    store = encoder.store(seed)
    return {name: Clips.of(asked.data, each.matches, store) for name, each in asked.moments.items()}


def _probed(asked: AskedViews, seen: dict[str, Clips], shares: Sequence[float], seed: int, weights: Floats) -> Scores:
    """Fit probes to one encoder's embeddings and score them."""

    def views(split: str) -> ProbedViews:
        known = torch.from_numpy(asked.questions[split].known)
        return ProbedViews(seen[split].embeddings(asked.moments[split], "last")[known], asked.truth(split))

    scored = views(asked.split)
    chosen = [asked.with_labels(share, seed) for share in shares]
    answers = fit_and_answer(views("train"), chosen, views("val"), {"scored": scored.embeddings}, seed)
    return {
        (probe, share, question): _precision(said[probe, "scored"][:, q], scored.truth[:, q], asked.match, weights)
        for share, said in zip(shares, answers, strict=True)
        for probe in PROBES
        for q, question in enumerate(NAMES)
    }


def _prior(asked: AskedViews, shares: Sequence[float], weights: Floats) -> Scores:
    """Who says of every view what is true of all: how often each place holds somebody."""
    truth = asked.truth(asked.split)
    often = np.broadcast_to(asked.truth("train").mean(0, dtype=np.float32), truth.shape)
    scores = {
        question: _precision(np.ascontiguousarray(often[:, q]), truth[:, q], asked.match, weights)
        for q, question in enumerate(NAMES)
    }
    return {(probe, share, question): scores[question] for probe in PROBES for share in shares for question in NAMES}


def _precision(
    said: NDArray[np.float32], truth: NDArray[np.bool_], match: NDArray[np.int64], weights: Floats
) -> Floats:
    return Counts.of(said, truth, match, np.full(truth.shape[1], 0.5)).scores(weights)["macro_ap"]


def _retrieval(asked: AskedViews, encoder: FrozenViews) -> Iterator[RetrievalScore]:
    """An encoder's embeddings, and its projector's if it has one, among every kind of wrong candidates there is."""
    opened = [_opened(asked, encoder, seed) for seed in range(len(encoder.stores))]
    for kind, candidates in KINDS.items():
        place = "retrieval" if kind == "another map" else asked.split
        if place not in asked.moments:
            continue
        moments = spaced(asked.moments[place], asked.apart_rows(APART_S))
        if candidates == "other-matches" and len(moments.matches) == 1:
            continue  # there are none
        raw = [_views(seen[place], moments) for seen in opened]
        train = [_views(seen["train"], asked.moments["train"]) for seen in opened]
        scaled = [_unit(views, known) for views, known in zip(raw, train, strict=True)]
        yield _with_enough_matches(score_retrieval(encoder.name, kind, scaled, moments, candidates), moments)
        if encoder.projectors:
            with torch.no_grad():
                z = [head.embed(views).numpy() for head, views in zip(encoder.projectors, raw, strict=True)]
            yield _with_enough_matches(
                score_retrieval(f"{encoder.name}, projected", kind, z, moments, candidates), moments
            )


def _with_enough_matches(score: RetrievalScore, moments: Moments) -> RetrievalScore:
    """With an interval only where there are enough matches for one."""
    return score if len(moments.matches) >= FEWEST else replace(score, top1=None)


def _views(seen: Clips, moments: Moments) -> Tensor:
    """[N, D] of all who are present."""
    return seen.embeddings(moments, "last")[torch.from_numpy(moments.present)]


def _unit(views: Tensor, train: Tensor) -> NDArray[np.float32]:
    """Each number scaled by what it is over training views, then all to length 1."""
    scaled = (views - train.mean(0)) / train.std(0).clamp(min=1e-6)
    return np.asarray(torch.nn.functional.normalize(scaled, dim=1).numpy(), np.float32)
