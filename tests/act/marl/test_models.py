"""The video actor and critic, by themselves: what they read, what they answer, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Composite, Unbounded, UnboundedDiscrete

from reelrl.act.marl.benchmarl.frozen_encoder import EMBEDDING
from reelrl.act.marl.benchmarl.models import VideoCentralCriticModelConfig, VideoPolicyModelConfig
from reelrl.errors import ConfigError

AGENTS, FRAMES, HEIGHT, WIDTH, ACTIONS = 2, 2, 24, 32, 5
ENCODER = {"model_type": "cnn", "channels": [4, 4], "embed_dim": 8}


def video_spec(shape: tuple[int, ...] = (AGENTS, FRAMES, 3, HEIGHT, WIDTH), dtype: torch.dtype = torch.uint8) -> Any:
    return UnboundedDiscrete(shape=shape, dtype=dtype)


def observed(**leaves: Any) -> Composite:
    return Composite({"player": Composite({"observation": video_spec(), **leaves}, shape=(AGENTS,))})


def actor(spec: Composite | None = None, share: bool = True, centralised: bool = False, **changes: Any) -> Any:
    config = VideoPolicyModelConfig.get_from_yaml()
    config.video_encoder_cfg = ENCODER
    for name, value in changes.items():
        setattr(config, name, value)
    logits = Composite({"player": Composite({"logits": Unbounded(shape=(AGENTS, ACTIONS))}, shape=(AGENTS,))})
    return build(config, spec or observed(), logits, share, centralised)


def critic(spec: Composite | None = None, share: bool = True, centralised: bool = True, **changes: Any) -> Any:
    config = VideoCentralCriticModelConfig.get_from_yaml()
    config.video_encoder_cfg = ENCODER
    for name, value in changes.items():
        setattr(config, name, value)
    value = Composite({"state_value": Unbounded(shape=(1,))})
    if not share:
        value = Composite({"player": Composite({"state_value": Unbounded(shape=(AGENTS, 1))}, shape=(AGENTS,))})
    return build(config, spec or observed(), value, share, centralised)


def build(config: Any, spec: Composite, output: Composite, share: bool, centralised: bool) -> Any:
    return config.get_model(
        input_spec=spec, output_spec=output, agent_group="player", input_has_agent_dim=True, n_agents=AGENTS,
        centralised=centralised, share_params=share, device="cpu", action_spec=Composite(),
    )  # fmt: skip


def seen(batch: int = 3, seed: int = 0) -> TensorDict:
    random = torch.Generator().manual_seed(seed)
    video = torch.randint(256, (batch, AGENTS, FRAMES, 3, HEIGHT, WIDTH), dtype=torch.uint8, generator=random)
    return TensorDict({"player": TensorDict({"observation": video}, [batch, AGENTS])}, [batch])


@pytest.mark.parametrize("share", [True, False])
def test_an_actor_scores_each_agents_actions_from_its_own_video_only(share: bool) -> None:
    model, one, other = actor(share=share), seen(), seen()
    other["player", "observation"][:, 1] = 0
    scores, changed = model(one)["player", "logits"], model(other)["player", "logits"]
    assert scores.shape == (3, AGENTS, ACTIONS)
    assert torch.equal(scores[:, 0], changed[:, 0])
    assert not torch.equal(scores[:, 1], changed[:, 1])


@pytest.mark.parametrize("fusion", ["concat", "mean"])
@pytest.mark.parametrize("share", [True, False])
def test_a_critics_values_depend_on_all_agents_videos(share: bool, fusion: str) -> None:
    model, one, other = critic(share=share, fusion=fusion), seen(), seen()
    other["player", "observation"][:, 1] = 0
    key = "state_value" if share else ("player", "state_value")
    values, changed = model(one)[key], model(other)[key]
    assert values.shape == ((3, 1) if share else (3, AGENTS, 1))
    assert (values != changed).all()


def test_agents_without_common_parameters_have_encoders_of_their_own() -> None:
    own, common = (sum(p.numel() for p in actor(share=share).parameters()) for share in (False, True))
    assert own == AGENTS * common


def test_a_frozen_encoder_has_nothing_to_learn_and_is_one_for_both_models() -> None:
    frozen = {**ENCODER, "freeze_backbone": True}
    ours, theirs = actor(video_encoder_cfg=frozen), critic(video_encoder_cfg=frozen)
    assert not list(ours.eyes.parameters())
    assert ours.eyes._frozen[0] is theirs.eyes._frozen[0]
    assert all(p.requires_grad for p in ours.parameters())


def test_an_embedding_made_at_collection_gives_the_same_scores_as_the_video() -> None:
    frozen = {**ENCODER, "freeze_backbone": True}
    at_once = actor(video_encoder_cfg=frozen)
    data = seen()
    spec = Composite({"player": Composite({EMBEDDING: Unbounded(shape=(AGENTS, 1, 8))}, shape=(AGENTS,))})
    later = actor(spec, video_encoder_cfg=frozen)
    later.load_state_dict(at_once.state_dict())
    rows = at_once.eyes._rows(data["player", "observation"])
    encoded = TensorDict({"player": TensorDict({EMBEDDING: rows}, [3, AGENTS])}, [3])
    assert torch.equal(later(encoded)["player", "logits"], at_once(data)["player", "logits"])
    assert later.in_keys == [("player", EMBEDDING)]


def test_facts_beside_the_video_are_read() -> None:
    seen_and_known = Composite({"video": video_spec(), "health": Unbounded(shape=(AGENTS, 1))}, shape=(AGENTS,))
    spec = Composite({"player": Composite({"observation": seen_and_known}, shape=(AGENTS,))})
    model = actor(spec, video_key="video", aux_keys=["health"])
    video = seen()["player", "observation"]

    def scores(health: float) -> Any:
        parts = TensorDict({"video": video, "health": torch.full((3, AGENTS, 1), health)}, [3, AGENTS])
        return model(TensorDict({"player": TensorDict({"observation": parts}, [3, AGENTS])}, [3]))["player", "logits"]

    assert not torch.equal(scores(1.0), scores(0.5))


def test_temporal_features_are_wider() -> None:
    encoder = {"model_type": "video-transformer", "embed_dim": 8, "heads": 2, "depth": 1}
    assert actor(video_encoder_cfg=encoder, return_temporal_features=True).eyes.width == FRAMES * 8
    assert actor(video_encoder_cfg=encoder).eyes.width == 8


def test_the_actor_refuses_to_be_centralised_and_the_critic_not_to_be() -> None:
    with pytest.raises(ConfigError, match="centralised is true"):
        actor(centralised=True)
    with pytest.raises(ConfigError, match="centralised is false"):
        critic(centralised=False)


def changed_video(spec: Any) -> Composite:
    return Composite({"player": Composite({"observation": spec}, shape=(AGENTS,))})


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        (None, {"video_key": "pixels"}, "video_key names 'pixels'.*observation"),
        (None, {"aux_keys": ["health"]}, "aux_keys names 'health'"),
        (video_spec((AGENTS, FRAMES, HEIGHT, WIDTH, 3)), {}, r"\(2, 2, 24, 32, 3\).*channels last"),
        (video_spec((AGENTS, 3, HEIGHT, WIDTH)), {}, r"\(2, 3, 24, 32\).*T, C, H, W"),
        (video_spec(dtype=torch.int64), {}, "int64"),
        (video_spec((AGENTS, FRAMES, 3, 8, 8)), {}, "8 x 8 are too small"),
        (None, {"return_temporal_features": True}, "one embedding for all frames"),
        (None, {"dropout": 1.0}, "dropout is 1.0"),
        (None, {"head_hidden_sizes": [0]}, "head_hidden_sizes"),
        (None, {"video_encoder_cfg": {"model_type": "cn"}}, "did you mean 'cnn'"),
        (None, {"video_encoder_cfg": {"model_type": "cnn", "chanels": [4]}}, "video_encoder_cfg: .*chanels"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_at_construction(spec: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        actor(changed_video(spec) if spec is not None else None, **changes)


def test_an_unknown_fusion_is_refused() -> None:
    with pytest.raises(ConfigError, match="fusion is 'sum'"):
        critic(fusion="sum")
