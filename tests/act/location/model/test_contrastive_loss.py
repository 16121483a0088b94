"""The contrastive loss: equal to a plain double loop, blind to order, whole at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.act.location.model.contrastive_loss import CrossEgoContrastive, sigmoid_loss, softmax_loss
from reelrl.errors import ConfigError, InvalidStateError

WIDTH = 6
a_batch = st.lists(st.integers(0, 4), min_size=1, max_size=12)  # the moment of each view


def module(**options: float | bool) -> CrossEgoContrastive:
    torch.manual_seed(0)
    return CrossEgoContrastive(WIDTH, 4, 8, **options).double()  # type: ignore[arg-type]


def views(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def double_loop(z: torch.Tensor, moments: list[int], scale: float, bias: float, self_pairs: bool) -> float:
    total = 0.0
    for i, mine in enumerate(moments):
        for j, theirs in enumerate(moments):
            if i == j and not self_pairs:
                continue
            logit = scale * float(z[i] @ z[j]) + bias
            total += math.log1p(math.exp(-logit if mine == theirs else logit))
    return total / len(moments)


@settings(deadline=None)
@given(a_batch, st.booleans(), st.floats(0.1, 20), st.floats(-10, 3))
def test_the_loss_is_that_of_a_plain_double_loop(
    moments: list[int], self_pairs: bool, scale: float, bias: float
) -> None:
    model = module(self_pairs=self_pairs, init_logit_scale=scale, init_logit_bias=bias)
    with torch.no_grad():
        found = model(views(len(moments)), torch.tensor(moments))
    assert found.embeddings.norm(dim=1).tolist() == pytest.approx([1.0] * len(moments))
    expected = double_loop(found.embeddings, moments, float(found.temperature), float(found.bias), self_pairs)
    assert float(found.loss) == pytest.approx(expected)
    assert float(found.temperature) == pytest.approx(scale, rel=1e-6)
    assert float(found.bias) == pytest.approx(bias, rel=1e-6)


@settings(deadline=None)
@given(a_batch, st.randoms(use_true_random=False))
def test_the_order_of_agents_and_the_names_of_moments_change_nothing(moments: list[int], random: object) -> None:
    order = list(range(len(moments)))
    random.shuffle(order)  # type: ignore[attr-defined]
    names = list(range(10, 15))
    random.shuffle(names)  # type: ignore[attr-defined]
    model, seen = module(), views(len(moments))
    with torch.no_grad():
        one = model(seen, torch.tensor(moments))
        other = model(seen[order], torch.tensor([names[moments[i]] for i in order]))
    assert float(other.loss) == pytest.approx(float(one.loss))
    assert torch.allclose(other.embeddings, one.embeddings[order])
    assert vars(other.retrieval) == pytest.approx(vars(one.retrieval), nan_ok=True)


@pytest.mark.parametrize("self_pairs", [False, True])
def test_gradients_are_those_of_the_loss(self_pairs: bool) -> None:
    model, moments = module(self_pairs=self_pairs), torch.tensor([0, 0, 1, 2])
    seen = views(4).requires_grad_()
    weights = [value for value in model.parameters() if value.requires_grad]
    assert torch.autograd.gradcheck(lambda *_: model(seen, moments).loss, (seen, *weights))


@pytest.mark.parametrize("moments", [[0], [0, 0, 0], [0, 1, 2], []])
def test_one_agent_or_one_moment_is_no_accident(moments: list[int]) -> None:
    model, seen = module(), views(len(moments)).requires_grad_()
    found = model(seen, torch.tensor(moments).long())
    found.loss.backward()
    assert found.loss.isfinite()
    assert seen.grad is not None
    assert seen.grad.isfinite().all()
    assert found.retrieval.queries == 0


def test_learning_brings_views_of_a_moment_together() -> None:
    moments = torch.arange(8).repeat_interleave(3)
    # Half of what is seen is the moment's own, half is each view's.
    model, seen = module(), torch.cat([views(8)[:, :3].repeat_interleave(3, 0), 2 * views(24, seed=1)[:, 3:]], 1)
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    before = model(seen, moments)
    for _ in range(60):
        optimiser.zero_grad()
        found = model(seen, moments)
        found.loss.backward()
        optimiser.step()
    assert found.loss < before.loss / 2
    assert found.retrieval.top1 > before.retrieval.top1 + 0.3


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_teams_are_their_views_one_after_the_other(team: list[list[bool]]) -> None:
    present, model = torch.tensor(team), module()
    seen = views(present.numel()).reshape(*present.shape, WIDTH).masked_fill(~present[..., None], torch.nan)
    with torch.no_grad():
        whole = model(seen, present=present)
        single = model(seen[present], torch.arange(len(present))[:, None].expand_as(present)[present])
    assert torch.equal(whole.embeddings[present], single.embeddings)
    assert not whole.embeddings[~present].any()
    assert torch.equal(whole.logits, single.logits)
    assert whole.loss == single.loss
    assert whole.retrieval.queries == single.retrieval.queries


def test_a_width_is_all_it_needs() -> None:
    found = CrossEgoContrastive(16)(torch.randn(5, 3, 16))
    assert found.embeddings.shape == (5, 3, 16)
    assert found.logits.shape == (15, 15)
    assert found.retrieval.queries == 15
    found.loss.backward()


@settings(deadline=None)
@given(a_batch)
def test_softmax_is_that_of_a_plain_loop(moments: list[int]) -> None:
    logits = 3 * torch.randn(len(moments), len(moments), dtype=torch.float64)
    rows = []
    for i, mine in enumerate(moments):
        others = [j for j in range(len(moments)) if j != i]
        right = [j for j in others if moments[j] == mine]
        if right:
            whole = math.log(sum(math.exp(float(logits[i, j])) for j in others))
            rows.append(sum(whole - float(logits[i, j]) for j in right) / len(right))
    found = float(softmax_loss(logits, torch.tensor(moments)))
    assert found == pytest.approx(sum(rows) / len(rows) if rows else 0.0)


def test_pairs_left_out_do_not_count() -> None:
    logits, moments = torch.randn(4, 4, dtype=torch.float64), torch.tensor([0, 0, 1, 1])
    negatives = moments[:, None] != moments
    only_positives = sigmoid_loss(logits, moments, leave_out=negatives)
    pairs = [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert float(only_positives) == pytest.approx(sum(math.log1p(math.exp(-float(logits[p]))) for p in pairs) / 4)


def test_what_shall_not_learn_does_not() -> None:
    learns = {name for name, value in module().named_parameters() if value.requires_grad}
    fixed = {name for name, value in module(learnable_temp=False).named_parameters() if value.requires_grad}
    unbiased = module(turn_off_bias=True)
    assert learns - fixed == {"log_temperature"}
    assert "bias" not in {name for name, value in unbiased.named_parameters() if value.requires_grad}
    assert float(unbiased(views(2), torch.tensor([0, 1])).bias) == 0


@pytest.mark.parametrize(
    ("seen", "moments", "told"),
    [
        (torch.zeros(2, 5), torch.tensor([0, 1]), r"\(2, 5\); give \[N, 6\]"),
        (torch.zeros(1, 1, 2, 6), torch.tensor([0]), r"\(1, 1, 2, 6\); give \[N, 6\]"),
        (torch.zeros(2, 3, 6), torch.tensor([0]), "one for each of 2 rows"),
        (torch.zeros(2, 6), None, "moments are none; give one whole number for each of the 2 views"),
        (torch.zeros(2, 6), torch.tensor([0]), "for each of the 2 views"),
        (torch.zeros(2, 6), torch.tensor([0.0, 1.0]), "one whole number"),
    ],
)
def test_wrong_shapes_are_told(seen: torch.Tensor, moments: torch.Tensor | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        module()(seen.double(), moments)


def test_an_embedding_that_is_not_finite_is_told() -> None:
    with pytest.raises(InvalidStateError, match="not all finite"):
        module()(torch.full((2, WIDTH), torch.nan), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("options", "told"), [({"init_logit_scale": 0.0}, "above 0"), ({"init_logit_bias": math.inf}, "finite")]
)
def test_settings_that_cannot_be_right_are_told(options: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        module(**options)
