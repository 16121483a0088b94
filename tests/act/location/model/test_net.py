"""The location net: what it reads, whose views count, what it refuses, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl.act.location.model.net import HEADS, CrossEgoVideoLocationNet
from reelrl.act.location.model.settings import ContrastiveSettings, LocationNetSettings
from reelrl.act.video.encoder import VideoEncoderSettings
from reelrl.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ROWS, AGENTS, WIDTH, PLACES = 4, 3, 10, 7
CLIP = (2, 3, 24, 32)
ENCODER = VideoEncoderSettings(model_type="cnn", channels=(4, 4), embed_dim=8)
SMALL: dict[str, Any] = {
    "num_places": PLACES, "proj_dim": 8, "fused_agent_dim": 8, "hidden_dim": 16, "team_embed_dim": 2, "dropout": 0.0,
    "num_agents": AGENTS,
}  # fmt: skip


def net(**changes: Any) -> CrossEgoVideoLocationNet:
    torch.manual_seed(0)
    return CrossEgoVideoLocationNet(LocationNetSettings(**{"embed_dim": WIDTH, **SMALL, **changes}))


def video_net(**changes: Any) -> CrossEgoVideoLocationNet:
    return net(**{"embed_dim": None, "video_encoder": ENCODER, "clip": CLIP, **changes})


def embeddings(rows: int = ROWS, agents: int = AGENTS) -> torch.Tensor:
    return torch.randn(rows, agents, WIDTH, generator=torch.Generator().manual_seed(1))


def video(rows: int = ROWS, agents: int = AGENTS) -> torch.Tensor:
    return torch.randint(256, (rows, agents, *CLIP), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("enable", [True, False])
@pytest.mark.parametrize("fusion", ["mean", "max", "concat", "attention", "transformer"])
def test_every_head_scores_every_place_from_embeddings(fusion: str, enable: bool) -> None:
    model = net(fusion=fusion, contrastive=ContrastiveSettings(enable=enable))
    found = model(embeddings=embeddings(), team=torch.tensor([0, 1, 0, 1]))
    assert {head: tuple(logits.shape) for head, logits in found.logits.items()} == dict.fromkeys(HEADS, (ROWS, PLACES))
    assert (found.contrastive is not None) == enable
    assert model.encoder is None


def test_video_is_read_by_an_encoder_that_learns() -> None:
    model = video_net()
    found = model(video=video())
    (found.contrastive.loss + sum(logits.sum() for logits in found.logits.values())).backward()
    assert model.encoder is not None
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.encoder.parameters())


def test_a_frozen_encoder_is_no_part_of_the_net() -> None:
    learning, frozen = video_net(), video_net(video_encoder=replace(ENCODER, freeze_backbone=True))
    assert frozen(video=video()).logits["mates_now"].isfinite().all()
    only = learning.state_dict().keys() - frozen.state_dict().keys()
    assert only == {name for name in learning.state_dict() if name.startswith("encoder.")}


@pytest.mark.parametrize("fusion", ["mean", "concat", "attention"])
def test_one_agent_at_inference_works_and_needs_no_teammate(fusion: str) -> None:
    model, seen = net(fusion=fusion).eval(), embeddings()
    alone = model(embeddings=seen[:, :1])
    only = torch.tensor([[True, False, False]]).expand(ROWS, -1)
    among_others = model(embeddings=seen, subset=only)
    for head in HEADS:
        assert torch.allclose(alone.logits[head], among_others.logits[head], atol=1e-6)


def test_the_dead_are_neither_compared_nor_fused() -> None:
    model, seen = net().eval(), embeddings()
    present = torch.tensor([[True, True, False], [True, False, False], [True, True, True], [False, True, True]])
    found = model(embeddings=seen, present=present)
    other = model(embeddings=seen.masked_fill(~present[..., None], torch.nan), present=present)
    assert torch.equal(found.logits["enemies_now"], other.logits["enemies_now"])
    assert found.contrastive.logits.shape == (8, 8)
    assert found.contrastive.moments.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]


def test_in_training_a_subset_is_drawn_and_the_loss_still_sees_all() -> None:
    model, seen = net(num_pov_agents=2).train(), embeddings(64, 3)
    present = torch.ones(64, 3, dtype=torch.bool)
    present[:8, 1:] = False  # one agent left: fewer than asked for
    draw = [model(embeddings=seen, present=present, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(draw[0].subset, draw[1].subset)
    assert not torch.equal(draw[0].subset, draw[2].subset)
    assert draw[0].subset.sum(1).tolist() == [1] * 8 + [2] * 56
    assert not (draw[0].subset & ~present).any()
    assert draw[0].subset[8:].float().mean(0).tolist() == pytest.approx([2 / 3] * 3, abs=0.2)
    assert len(draw[0].contrastive.embeddings) == 8 + 56 * 3
    assert torch.equal(model.eval()(embeddings=seen, present=present).subset, present)


def test_the_normalised_embedding_is_what_goes_on() -> None:
    """The fuser's input with the term on has length 1, in training and test alike."""
    caught: list[torch.Tensor] = []
    model = net()
    model.fuser.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    for training in (True, False):
        model.train(training)(embeddings=embeddings())
        assert torch.allclose(caught.pop().norm(dim=2), torch.ones(ROWS, AGENTS))


def test_the_side_matters_and_can_be_left_out() -> None:
    zeros, ones = torch.zeros(ROWS, dtype=torch.long), torch.ones(ROWS, dtype=torch.long)
    told, blind = net().eval(), net(team_embed_dim=0).eval()
    head = "mates_now"
    assert not torch.equal(
        told(embeddings=embeddings(), team=zeros).logits[head], told(embeddings=embeddings(), team=ones).logits[head]
    )
    assert torch.equal(
        blind(embeddings=embeddings(), team=zeros).logits[head], blind(embeddings=embeddings(), team=ones).logits[head]
    )


def test_it_learns_places_that_the_views_tell() -> None:
    torch.manual_seed(0)
    seen = torch.randn(64, AGENTS, WIDTH)
    truth = (seen.mean(1)[:, :PLACES] > 0).float()
    model = net()
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    losses = []
    for _ in range(30):
        found = model(embeddings=seen)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(found.logits["mates_now"], truth)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("model", [net(fusion="transformer", num_pov_agents=2), video_net(), net(team_embed_dim=0)])
def test_a_saved_net_answers_as_before(model: CrossEgoVideoLocationNet, tmp_path: Path) -> None:
    model.save(tmp_path / "net.safetensors")
    found = CrossEgoVideoLocationNet.load(tmp_path / "net.safetensors")
    assert found.settings == model.settings
    seen = {"video": video()} if model.encoder is not None else {"embeddings": embeddings()}
    ours, theirs = model.eval()(**seen).logits, found(**seen).logits
    assert all(torch.equal(ours[head], theirs[head]) for head in HEADS)


def test_a_file_that_is_no_net_is_told(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with pytest.raises(CheckpointError, match=r"net\.safetensors"):
        CrossEgoVideoLocationNet.load(path)
    net().save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="holds no location net"):
        CrossEgoVideoLocationNet.load(path)
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(CheckpointError, match="holds no location net"):
        CrossEgoVideoLocationNet.load(path)


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        (net(), {"video": video()}, "was given video; it has no encoder.*give embeddings=.*video_encoder and clip"),
        (video_net(), {"embeddings": embeddings()}, "was given embeddings; it has an encoder.*give video=.*embed_dim"),
        (net(), {}, "was given nothing"),
        (net(), {"embeddings": embeddings(), "video": video()}, "was given video and embeddings"),
        (net(), {"embeddings": embeddings()[..., :5]}, r"reads \[B, A, 10\]"),
        (video_net(), {"video": video()[:, :, 0]}, r"reads \[B, A, 2, 3, 24, 32\]"),
        (video_net(), {"video": video().float()}, "give the pixels as uint8"),
        (net(), {"embeddings": embeddings(), "present": torch.ones(ROWS, 2, dtype=torch.bool)}, r"give bool \(4, 3\)"),
        (net(), {"embeddings": embeddings(), "team": torch.tensor([0, 1, 2, 0])}, "give 0 or 1"),
        (net(), {"embeddings": embeddings(), "moments": torch.arange(3)}, "for each of 4 rows"),
    ],
)
def test_the_wrong_input_is_told_with_what_to_do(
    model: CrossEgoVideoLocationNet, given: dict[str, torch.Tensor], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        model(**given)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"embed_dim": None}, "neither is set"),
        ({"video_encoder": ENCODER, "clip": CLIP}, "both are set"),
        ({"embed_dim": None, "video_encoder": ENCODER}, "belong together"),
        ({"num_places": 0}, "num_places is 0"),
        ({"num_pov_agents": 0}, "num_pov_agents is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_settings_that_cannot_be_right_are_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        net(**changes)
    with pytest.raises(ConfigError, match="loss_weight is -1"):
        ContrastiveSettings(loss_weight=-1)
