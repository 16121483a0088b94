"""Fusing agents: who is absent does not matter, and, but for concat, neither does the order."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.act.location.model.fuser import AgentFuser, Fusion
from reelrl.errors import ConfigError

WIDTH, FUSED, SEATS = 8, 5, 5
every_kind = pytest.mark.parametrize("fusion", get_args(Fusion))


def fuser(fusion: Fusion) -> AgentFuser:
    torch.manual_seed(0)
    return AgentFuser(WIDTH, SEATS, fusion, FUSED, heads=2).double().eval()


def agents(rows: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, count, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Rows of one batch: who is present, at least one.
teams = st.integers(1, SEATS).flatmap(
    lambda count: st.lists(st.lists(st.booleans(), min_size=count, max_size=count).filter(any), min_size=1, max_size=4)
)


@every_kind
@settings(deadline=None, max_examples=25)
@given(teams)
def test_what_stands_in_an_absent_agents_place_is_never_read(fusion: Fusion, team: list[list[bool]]) -> None:
    present = torch.tensor(team)
    z = agents(*present.shape)
    model = fuser(fusion)
    found = model(z, present)
    assert found.shape == (len(team), FUSED)
    assert found.isfinite().all()
    assert torch.equal(model(z.masked_fill(~present[..., None], torch.nan), present), found)


@pytest.mark.parametrize("fusion", [kind for kind in get_args(Fusion) if kind != "concat"])
@settings(deadline=None, max_examples=25)
@given(teams, st.randoms(use_true_random=False))
def test_the_order_of_agents_changes_nothing(fusion: Fusion, team: list[list[bool]], random: object) -> None:
    present = torch.tensor(team)
    order = list(range(present.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    z, model = agents(*present.shape), fuser(fusion)
    assert torch.allclose(model(z[:, order], present[:, order]), model(z, present))


@pytest.mark.parametrize("fusion", [kind for kind in get_args(Fusion) if kind != "concat"])
def test_an_absent_agent_is_as_good_as_none(fusion: Fusion) -> None:
    z, model = agents(3, 4), fuser(fusion)
    present = torch.tensor([[True, False, True, False]] * 3)
    assert torch.allclose(model(z, present), model(z[:, [0, 2]], torch.ones(3, 2, dtype=torch.bool)))


def test_concat_knows_who_is_who() -> None:
    z, present = agents(2, 3), torch.ones(2, 3, dtype=torch.bool)
    model = fuser("concat")
    assert not torch.allclose(model(z[:, [1, 0, 2]], present), model(z, present))


@every_kind
def test_rows_do_not_look_at_each_other(fusion: Fusion) -> None:
    z, present, model = agents(3, 4), torch.ones(3, 4, dtype=torch.bool), fuser(fusion)
    assert torch.allclose(model(z, present)[1:2], model(z[1:2], present[1:2]))


@every_kind
def test_all_agents_that_are_there_get_gradients_and_no_other(fusion: Fusion) -> None:
    z, present = agents(2, 3, seed=1).requires_grad_(), torch.tensor([[True, True, False], [False, True, False]])
    weights = torch.arange(1.0, FUSED + 1, dtype=torch.float64) ** 2
    (fuser(fusion).train()(z, present) * weights).sum().backward()
    assert z.grad is not None
    assert torch.equal(z.grad.abs().sum(2) > 0, present)


def test_mean_and_max_are_what_their_names_say() -> None:
    z, present = agents(1, 3), torch.tensor([[True, True, False]])
    mean, largest = fuser("mean"), fuser("max")
    assert torch.allclose(mean(z, present), mean.out(z[:, :2].mean(1)))
    assert torch.allclose(largest(z, present), largest.out(z[:, :2].amax(1)))


@pytest.mark.parametrize(
    ("z", "present", "told"),
    [
        (agents(2, 6), torch.ones(2, 6, dtype=torch.bool), "6 agents are given, and this concat has 5 seats"),
        (agents(2, 3)[..., :7], torch.ones(2, 3, dtype=torch.bool), r"give \[B, agents, 8\]"),
        (agents(2, 3), torch.ones(2, 3), "torch.float32"),
        (agents(2, 3), torch.ones(2, 2, dtype=torch.bool), r"\(2, 2\); give bool \(2, 3\)"),
        (agents(2, 3), torch.tensor([[True] * 3, [False] * 3]), "row 1 has no agent present"),
    ],
)
def test_what_cannot_be_fused_is_told(z: torch.Tensor, present: torch.Tensor, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        fuser("concat")(z, present)


@every_kind
def test_without_a_mask_everybody_is_there(fusion: Fusion) -> None:
    z, model = agents(2, SEATS), fuser(fusion)
    assert torch.equal(model(z), model(z, torch.ones(2, SEATS, dtype=torch.bool)))
    assert AgentFuser(WIDTH, SEATS, fusion)(z.float()).shape == (2, WIDTH)


def test_a_kind_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="attention"):
        AgentFuser(WIDTH, SEATS, "atention")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="does not divide by heads"):
        AgentFuser(6, SEATS, "transformer", heads=4)
