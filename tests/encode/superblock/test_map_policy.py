"""Map policies: their files, the maps that they make of features, and what they do as controllers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reelrl.encode.features import clip_features
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.learned import load_map_controller
from reelrl.encode.superblock.map_policy import FittedMap, MapPolicy
from reelrl.encode.superblock.maps import feature_map, named_weights
from reelrl.errors import ConfigError, ContentError
from tests.encode.makers import scene

POLICY = MapPolicy(
    {"variance": 0.25, "importance": -1.0},
    inter_share=0.5,
    least_change=1.5,
    importance="centre",
    facts={"objective": "weighted:centre", "clips": ["a", "b"]},
)


def test_a_policy_is_saved_and_loaded(tmp_path: Path) -> None:
    POLICY.save(tmp_path / "policy.yaml")
    assert MapPolicy.load(tmp_path / "policy.yaml") == POLICY
    assert (tmp_path / "policy.yaml").stat().st_size < 1000


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "format: reelrl-superblock-map-1\nweights: !!python/object/apply:os.system ['touch /tmp/never']\n",
            "not valid YAML",
        ),
        ("weights: {variance: 1}\n", "does not say 'format"),
        ("[1, 2]\n", "does not say 'format"),
        ("{", "not valid YAML"),
        ("format: reelrl-superblock-map-1\n", "no weights"),
        ("format: reelrl-superblock-map-1\nweights: {}\nstrength: 3\n", "unknown 'strength'"),
    ],
)
def test_files_that_are_no_policy_are_refused(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(ContentError, match=match):
        MapPolicy.load(tmp_path / "policy.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"cannot read .*gone.yaml"):
        MapPolicy.load(tmp_path / "gone.yaml")


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": {"varience": 1.0}},
        {"weights": {"variance": float("nan")}},
        {"weights": {"variance": "much"}},
        {"weights": {"variance": 3.0}},
        {"weights": {"variance": 9.0}, "reach": 12},
        {"weights": {}, "reach": 0},
        {"weights": {}, "least_change": -1.0},
        {"weights": {}, "inter_share": float("inf")},
    ],
)
def test_impossible_policies_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MapPolicy(**wrong)  # type: ignore[arg-type]


def test_maps_are_those_of_the_features() -> None:
    clip = scene(frames=4)
    features = clip_features(clip)
    maps = MapPolicy({"variance": 0.8}, inter_share=0.5).maps_of_clip(clip, 40)
    for number, offsets in enumerate(maps):
        weights = named_weights(variance=0.8 if number == 0 else 0.4)
        np.testing.assert_array_equal(offsets, feature_map(features[number], weights, clip.grid))


def test_frames_in_which_little_changes_get_no_map() -> None:
    clip = scene(frames=4)
    maps = MapPolicy({"variance": 0.8}, least_change=1000.0).maps_of_clip(clip, 40)
    assert maps[0] is not None
    assert maps[1:] == [None] * 3


def test_the_gate_rises_with_the_quantiser() -> None:
    clip = scene(frames=4)
    change = float(clip_features(clip)[1:, 7].mean(1).min())
    policy = MapPolicy({"variance": 0.8}, least_change=change * 0.9)
    assert all(offsets is not None for offsets in policy.maps_of_clip(clip, 40))
    assert any(offsets is None for offsets in policy.maps_of_clip(clip, 60))


def test_a_policy_that_abstains_sends_nothing() -> None:
    assert MapPolicy({"variance": 1.0}, abstains=True).maps_of_clip(scene(frames=3), 40) == [None] * 3


@pytest.mark.parametrize("size", [(64, 64), (200, 130), (352, 288)])
def test_a_policy_carries_over_to_any_resolution(size: tuple[int, int]) -> None:
    clip = scene(frames=2, size=size)
    for offsets in POLICY.maps_of_clip(clip, 30):
        if offsets is not None:
            assert offsets.shape == (clip.superblock_count,)
            assert np.abs(offsets).max() <= 3


def test_as_a_controller_it_sends_its_maps_in_the_environment() -> None:
    clip, policy = scene(frames=4), MapPolicy({"variance": 0.8, "centre": -0.5}, least_change=0.5)
    env = SuperblockQpEnv(clip)
    controller = FittedMap(policy)
    observation, _ = env.reset(seed=0)
    controller.reset(0, env)
    for expected in policy.maps_of_clip(clip, env.settings.qp):
        observation, _, _, _, info = env.step(controller.act(observation))
        assert info["map_sent"] == (expected is not None)
        np.testing.assert_array_equal(info["offsets"], np.zeros(4, int) if expected is None else expected)
    env.close()


def test_a_policy_is_a_controller_by_its_file(tmp_path: Path) -> None:
    POLICY.save(tmp_path / "policy.yaml")
    controller = load_map_controller(str(tmp_path / "policy.yaml"))
    assert isinstance(controller, FittedMap)
    assert controller.policy == POLICY
    clip = scene(frames=3)
    env = SuperblockQpEnv(clip, **controller.env_options)
    env.reset(seed=0)
    controller.reset(0, env)
    for expected in POLICY.maps_of_clip(clip, env.settings.qp):
        *_, info = env.step(controller.act(None))
        np.testing.assert_array_equal(info["offsets"], np.zeros(4, int) if expected is None else expected)
    env.close()


@pytest.mark.parametrize("name", ["centre", "moving", "psnr", "ssim"])
def test_published_policies_load_and_say_what_they_are_for(name: str) -> None:
    policy = MapPolicy.load(Path(__file__).parents[3] / "docs" / "results" / "superblock" / f"{name}.yaml")
    assert name in policy.facts["objective"]
    assert policy.abstains == (name == "psnr")
