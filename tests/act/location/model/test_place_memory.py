"""A memory of the map: it looks back only, each view alone, and what it learned of one place it knows of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from reelrl.act.location.model.net import HEADS, CrossEgoVideoLocationNet
from reelrl.act.location.model.place_memory import PlaceMemory
from reelrl.act.location.model.settings import LocationNetSettings
from reelrl.act.location.readings import OF_SELF, readings_of
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PLACES, FRAMES, ROWS, AGENTS, ENEMIES = 5, 6, 4, 3, 2
FEATURES = readings_of(AGENTS + ENEMIES)
SMALL: dict[str, Any] = {
    "num_places": PLACES, "embed_dim": PLACES * FEATURES, "players": AGENTS, "enemies": ENEMIES, "memory_dim": 8,
    "proj_dim": 8, "fused_agent_dim": 8, "hidden_dim": 16, "dropout": 0.0, "num_agents": AGENTS, "num_hidden_layers": 1,
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
    memory = PlaceMemory(PLACES, AGENTS, ENEMIES, 8)
    seen, seats = torch.rand(2, FRAMES, PLACES, FEATURES), torch.tensor([0, 2])
    other = seen.clone()
    other[:, 3:] = 0
    kept, changed = memory(seen, seats), memory(other, seats)
    assert kept.shape == (2, FRAMES, AGENTS + ENEMIES, PLACES, 8)
    assert torch.equal(kept[:, :3], changed[:, :3])
    assert not torch.equal(kept[:, 3:], changed[:, 3:])
    earlier = seen.clone()
    earlier[:, 0] = 0
    assert not torch.equal(memory(earlier, seats)[:, -1], kept[:, -1])


def test_enemies_are_remembered_alike_and_who_looks_knows_itself() -> None:
    torch.manual_seed(0)
    memory = PlaceMemory(PLACES, AGENTS, ENEMIES, 8)
    seen, seats = torch.rand(2, FRAMES, PLACES, FEATURES), torch.tensor([0, 2])
    kept = memory(seen, seats)
    first = len(OF_SELF) + AGENTS
    swapped = seen.clone()
    swapped[..., [first, first + 1]] = seen[..., [first + 1, first]]
    torch.testing.assert_close(memory(swapped, seats)[:, :, [AGENTS + 1, AGENTS]], kept[:, :, AGENTS:])
    elsewhere = memory(seen, torch.tensor([0, 1]))
    torch.testing.assert_close(elsewhere[0], kept[0])
    assert not torch.allclose(elsewhere[1, :, 1:3], kept[1, :, 1:3])
    torch.testing.assert_close(elsewhere[1, :, 3:], kept[1, :, 3:])


@pytest.mark.parametrize("fusion", ["mean", "max", "concat", "attention", "transformer"])
def test_a_history_and_what_is_remembered_of_it_give_the_same_answer(fusion: str) -> None:
    model, seen = net(fusion=fusion).eval(), histories()
    seats = torch.arange(AGENTS).repeat(ROWS)
    remembered = model.remember(seen.flatten(0, 1), seats).unflatten(0, (ROWS, AGENTS))[:, :, -1]  # type: ignore[no-untyped-call]
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


def test_a_place_holds_somebody_if_one_of_those_asked_for_is_there() -> None:
    """The answers are those of the bodies put together, and who watches alone is not asked for itself."""
    model, seen = net().eval(), histories()
    alone = torch.tensor([[False, True, False]]).expand(ROWS, -1)
    for watching, asked in ((alone, [0, 2]), (torch.ones_like(alone), [0, 1, 2])):
        output = model(embeddings=seen, subset=watching)
        assert output.bodies is not None
        where = output.bodies.exp()
        torch.testing.assert_close(where.sum(2), torch.ones(ROWS, AGENTS + ENEMIES, 2))
        for when, name in enumerate(("now", "ahead")):
            mates = 1 - (1 - where[:, asked, :-1, when]).prod(1)
            torch.testing.assert_close(output.logits[f"mates_{name}"].sigmoid(), mates, atol=2e-4, rtol=1e-3)
            enemies = 1 - (1 - where[:, AGENTS:, :-1, when]).prod(1)
            torch.testing.assert_close(output.logits[f"enemies_{name}"].sigmoid(), enemies, atol=2e-4, rtol=1e-3)


def test_enemies_that_are_not_told_apart_can_be_everywhere() -> None:
    model = net(enemies=1, embed_dim=PLACES * readings_of(AGENTS + 1)).eval()
    with torch.no_grad():
        model.reader.usual[1] = 20.0
    said = model(embeddings=torch.rand(ROWS, AGENTS, FRAMES, PLACES * readings_of(AGENTS + 1))).logits["enemies_now"]
    assert (said.sigmoid() > 0.99).all()


@pytest.mark.long
@pytest.mark.slow
def test_places_share_what_they_learn() -> None:
    """Trained on sightings in three of the places, it knows what a sighting in the others means."""
    torch.manual_seed(0)
    model = net(memory_dim=16)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)

    def draw(places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        there = torch.nn.functional.one_hot(places[torch.randint(len(places), (64,))], PLACES).float()
        seen = torch.zeros(64, 1, FRAMES, PLACES, FEATURES)
        seen[:, 0, 1, :, len(OF_SELF) + AGENTS] = there  # the first enemy was on screen once, some frames ago
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
    with pytest.raises(ConfigError, match=r"this net reads \[B, A, T, 45\]"):
        net()(embeddings=histories()[:, :, 0])
    with pytest.raises(ConfigError, match=r"was given nothing; it has a memory"):
        net()()
    with pytest.raises(ConfigError, match="embed_dim is 14, and readings of 5 bodies at 5 places are 45"):
        net(embed_dim=14)
    with pytest.raises(ConfigError, match="must divide by 4"):
        net(memory_dim=6)
    with pytest.raises(ConfigError, match="this net has no memory"):
        net(players=None, enemies=None).remember(histories()[0], torch.arange(AGENTS))
    with pytest.raises(ConfigError, match="players and enemies belong together"):
        net(players=None)
    with pytest.raises(ConfigError, match="players is 3, and num_agents 4"):
        net(num_agents=4)
