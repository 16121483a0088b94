"""A memory of the map: it looks back only, each view alone, and what it learned of one place it knows of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from reelrl.act.location.net import HEADS, CrossEgoVideoLocationNet
from reelrl.act.location.net_settings import LocationNetSettings
from reelrl.act.location.place_memory import PlaceMemory
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PLACES, FEATURES, FRAMES, ROWS, AGENTS = 5, 3, 6, 4, 3
SMALL: dict[str, Any] = {
    "num_places": PLACES, "embed_dim": PLACES * FEATURES, "place_features": FEATURES, "memory_dim": 8, "proj_dim": 8,
    "fused_agent_dim": 8, "hidden_dim": 16, "dropout": 0.0, "num_agents": AGENTS, "num_hidden_layers": 1,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def net(**changes: Any) -> CrossEgoVideoLocationNet:
    torch.manual_seed(0)
    return CrossEgoVideoLocationNet(LocationNetSettings(**{**SMALL, **changes}))


def histories() -> torch.Tensor:
    return torch.rand(ROWS, AGENTS, FRAMES, PLACES * FEATURES, generator=torch.Generator().manual_seed(1))


def test_memory_looks_back_and_never_ahead() -> None:
    torch.manual_seed(0)
    memory = PlaceMemory(PLACES, FEATURES, 8)
    seen = torch.rand(2, FRAMES, PLACES, FEATURES)
    other = seen.clone()
    other[:, 3:] = 0
    kept, changed = memory(seen), memory(other)
    assert torch.equal(kept[:, :3], changed[:, :3])
    assert not torch.equal(kept[:, 3:], changed[:, 3:])
    earlier = seen.clone()
    earlier[:, 0] = 0
    assert not torch.equal(memory(earlier)[:, -1], kept[:, -1])


@pytest.mark.parametrize("fusion", ["mean", "max", "concat", "attention", "transformer"])
def test_a_history_and_what_is_remembered_of_it_give_the_same_answer(fusion: str) -> None:
    model, seen = net(fusion=fusion).eval(), histories()
    remembered = model.remember(seen.flatten(0, 1)).unflatten(0, (ROWS, AGENTS))[:, :, -1]  # type: ignore[no-untyped-call]
    ours, theirs = model(embeddings=seen), model(remembered=remembered)
    assert {head: tuple(each.shape) for head, each in ours.logits.items()} == dict.fromkeys(HEADS, (ROWS, PLACES))
    for head in HEADS:
        torch.testing.assert_close(ours.logits[head], theirs.logits[head])


def test_one_agent_needs_no_teammate_and_the_dead_are_not_read() -> None:
    model, seen = net().eval(), histories()
    alone = model(embeddings=seen[:, :1]).logits["mates_now"]
    only = torch.tensor([[True, False, False]]).expand(ROWS, -1)
    unread = seen.masked_fill(~only[..., None, None], torch.nan)
    torch.testing.assert_close(alone, model(embeddings=unread, present=only).logits["mates_now"])


def test_the_side_matters_and_can_be_left_out() -> None:
    sides = [torch.full((ROWS,), side) for side in (0, 1)]
    for told in (True, False):
        model = net(team_embed_dim=16 * told).eval()
        first, second = (model(embeddings=histories(), team=side).logits["mates_now"] for side in sides)
        assert torch.equal(first, second) != told


def test_places_share_what_they_learn() -> None:
    """Trained on sightings in three of the places, it knows what a sighting in the others means."""
    torch.manual_seed(0)
    model = net(memory_dim=16)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)

    def draw(places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        there = torch.zeros(64, PLACES)
        there[:, places] = (torch.rand(64, len(places)) < 0.5).float()
        seen = torch.zeros(64, 1, FRAMES, PLACES, FEATURES)
        seen[:, 0, 1, :, 0] = there  # on screen once, some frames ago
        return seen.flatten(3), there

    for _ in range(150):
        seen, there = draw(torch.tensor([0, 1, 2]))
        loss = binary_cross_entropy_with_logits(model(embeddings=seen).logits["enemies_now"][:, :3], there[:, :3])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    seen, there = draw(torch.tensor([3, 4]))
    said = model.eval()(embeddings=seen).logits["enemies_now"]
    assert said[there.bool()].mean() > said[:, 3:][~there[:, 3:].bool()].mean() + 1


def test_a_saved_net_remembers_as_before(tmp_path: Path) -> None:
    model = net().eval()
    model.save(tmp_path / "net.safetensors")
    found = CrossEgoVideoLocationNet.load(tmp_path / "net.safetensors")
    for head in HEADS:
        assert torch.equal(found(embeddings=histories()).logits[head], model(embeddings=histories()).logits[head])


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ConfigError, match=r"this net reads \[B, A, T, 15\]"):
        net()(embeddings=histories()[:, :, 0])
    with pytest.raises(ConfigError, match=r"was given nothing; it has a memory"):
        net()()
    with pytest.raises(ConfigError, match="embed_dim is 14, and 5 places"):
        net(embed_dim=14)
    with pytest.raises(ConfigError, match="must divide by 4"):
        net(memory_dim=6)
    with pytest.raises(ConfigError, match="this net has no memory"):
        net(place_features=None).remember(histories()[0])
