"""Finding a teammate's view of the same moment: against a slow twin, ties and hard candidates included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reelrl.act.location.retrieval import Candidates, Retrieval, retrieval
from reelrl.errors import ConfigError, InvalidStateError


def slow_twin(scores: list[list[float]], moments: list[int], matches: list[int], candidates: str) -> Retrieval:
    """The same, by sorting each query's candidates: at equal scores the wrong ones first."""
    ranks, chances = [], []
    views = range(len(moments))
    for query in views:
        right = [view for view in views if view != query and moments[view] == moments[query]]
        wrong = [view for view in views if moments[view] != moments[query]]
        if candidates == "same-match":
            wrong = [view for view in wrong if matches[view] == matches[query]]
        if candidates == "other-matches":
            wrong = [view for view in wrong if matches[view] != matches[query]]
        if right and wrong:
            order = sorted(right + wrong, key=lambda view: (-scores[query][view], view in right))
            ranks.append(1 + next(place for place, view in enumerate(order) if view in right))
            chances.append(len(right) / len(order))
    if not ranks:
        return Retrieval()
    top1, top3, top5 = (sum(rank <= limit for rank in ranks) / len(ranks) for limit in (1, 3, 5))
    mrr = sum(1 / rank for rank in ranks) / len(ranks)
    return Retrieval(top1, top3, top5, mrr, sum(chances) / len(chances), len(ranks))


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[list[float]], list[int], list[int]]:
    count = draw(st.integers(0, 12))
    scores = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]), min_size=count, max_size=count)  # ties abound
    labels = st.lists(st.integers(0, 4), min_size=count, max_size=count)
    moments = draw(labels)
    # A moment belongs to one match.
    return draw(st.lists(scores, min_size=count, max_size=count)), moments, [moment % 2 for moment in moments]


@pytest.mark.slow
@given(rankings(), st.sampled_from(["all", "same-match", "other-matches"]))
def test_a_ranking_is_judged_as_by_sorting(
    case: tuple[list[list[float]], list[int], list[int]], candidates: Candidates
) -> None:
    scores, moments, matches = case
    matrix = torch.tensor(scores).reshape(len(moments), len(moments))
    found = retrieval(matrix, torch.tensor(moments).long(), torch.tensor(matches).long(), candidates)
    slow = slow_twin(scores, moments, matches, candidates)
    assert vars(found) == pytest.approx(vars(slow), nan_ok=True)


def test_one_embedding_for_all_views_finds_nothing() -> None:
    assert retrieval(torch.ones(4, 4), torch.tensor([0, 0, 1, 1])).top1 == 0


def test_knowing_the_match_alone_is_seen_through() -> None:
    moments, matches = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    knows_the_match = (matches[:, None] == matches).float()
    assert retrieval(knows_the_match, moments, matches, "other-matches").top1 == 1
    assert retrieval(knows_the_match, moments, matches, "same-match").top1 == 0


@pytest.mark.parametrize(
    ("scores", "matches", "candidates", "told"),
    [
        (torch.ones(3, 2), None, "all", r"\(3, 2\).*\[N, N\]"),
        (torch.ones(2, 2), None, "same-match", "need the match of each view"),
        (torch.ones(2, 2), torch.zeros(3), "same-match", r"shape \(3,\)"),
        (torch.ones(2, 2), None, "near", "'near'; give one of all, same-match"),
    ],
)
def test_what_cannot_be_ranked_is_told(
    scores: torch.Tensor, matches: torch.Tensor | None, candidates: Candidates, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        retrieval(scores, torch.tensor([0, 1]), matches, candidates)


def test_nan_is_no_score() -> None:
    with pytest.raises(InvalidStateError, match="NaN"):
        retrieval(torch.full((2, 2), torch.nan), torch.tensor([0, 1]))
