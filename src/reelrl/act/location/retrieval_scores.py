"""Given one player's view, is a teammate's view of the same moment the nearest? Among three kinds of wrong ones.

    same match        other times of the same match: no help from knowing which match it is
    other matches     the same map, other matches
    another map       other times of the same match, on a map that no net was trained on

Moments of a match are taken so far apart that no two show nearly the same. Beside the nets stands the frozen encoder
itself, its embeddings less their mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.act.location.answers import embedded_views
from reelrl.act.location.retrieval import Retrieval, retrieval
from reelrl.report.intervals import Interval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.act.location.contestants import TrainedNet
    from reelrl.act.location.dataset import Scenes
    from reelrl.act.location.retrieval import Candidates
    from reelrl.act.location.samples import Moments

KINDS: dict[str, Candidates] = {
    "same match": "same-match",
    "other matches": "other-matches",
    "another map": "same-match",
}
FIGURES = ("top1", "top3", "top5", "mrr")


@dataclass(frozen=True)
class RetrievalScore:
    """Means over seeds; the interval of top-1 is over matches, where wrong candidates are of the same match."""

    contestant: str
    kind: str
    figures: Retrieval
    top1: Interval | None

    def record(self) -> dict[str, Any]:
        record = {"contestant": self.contestant, "among": self.kind, **asdict(self.figures)}
        return record | {"top1_interval": list(self.top1[1:]) if self.top1 else None}


def retrieval_scores(nets: dict[str, list[TrainedNet]], split: str, apart_s: float) -> list[RetrievalScore]:
    """Every net with unit vectors, and the frozen encoder, among every kind of wrong candidates there is."""
    scores = []
    scenes = next(iter(nets.values()))[0].scenes
    for kind, candidates in KINDS.items():
        place = "retrieval" if kind == "another map" else split
        if place not in scenes.moments:
            continue
        # Two moments of a match that show nearly the same would make a right answer wrong by a hair.
        moments = spaced(scenes.moments[place], scenes.apart_rows(apart_s))
        if candidates == "other-matches" and len(moments.matches) == 1:
            continue  # there are none
        if not scenes.clips[place].is_video:
            scores.append(
                score_retrieval("encoder alone", kind, [_encoder(scenes, place, moments)], moments, candidates)
            )
        for name, group in nets.items():
            views = [_net(each, place, moments) for each in group]
            there = [each for each in views if each is not None]
            if there:
                scores.append(score_retrieval(name, kind, there, moments, candidates))
    return scores


def spaced(moments: Moments, apart_rows: int) -> Moments:
    """Moments of each match at least that far apart, with two players or more; of one side, where there are two."""
    apart = (moments.row % apart_rows == moments.row.min() % apart_rows) & (moments.side == moments.side.min())
    return moments.take(apart & (moments.present.sum(1) > 1))


def score_retrieval(
    name: str, kind: str, seeds: Sequence[NDArray[np.float32]], moments: Moments, candidates: Candidates
) -> RetrievalScore:
    """Of unit vectors [N, D] of all views present in the moments, one array per seed."""
    number, _ = np.nonzero(moments.present)
    match = torch.from_numpy(moments.match[number])
    moment = torch.from_numpy(number)
    results = []
    by_match: dict[int, list[float]] = {}
    for views in seeds:
        scores = torch.from_numpy(views @ views.T)
        results.append(retrieval(scores, moment, match, candidates))
        for one in np.unique(match) if candidates == "same-match" else ():
            of_match = match == int(one)
            share = retrieval(scores[of_match][:, of_match], moment[of_match]).top1
            by_match.setdefault(int(one), []).append(share)
    means = {key: float(np.mean([asdict(each)[key] for each in results])) for key in (*FIGURES, "chance")}
    shares = [float(np.mean(each)) for each in by_match.values() if np.isfinite(each).all()]
    # Moments of one match are alike: matches are what is drawn again. Among other matches there is no share of one.
    top1 = mean_interval(np.array(shares)) if shares else None
    return RetrievalScore(name, kind, Retrieval(**means, queries=results[0].queries), top1)


def _net(trained: TrainedNet, place: str, moments: Moments) -> NDArray[np.float32] | None:
    return embedded_views(trained.net, trained.scenes.clips[place], moments, trained.settings.pooling)


def _encoder(scenes: Scenes, place: str, moments: Moments) -> NDArray[np.float32]:
    embeddings = scenes.clips[place].embeddings(moments, "mean").numpy()[moments.present]
    centred = embeddings - embeddings.mean(0)
    return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True), np.float32)
