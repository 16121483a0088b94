"""Maps from features, and the controllers that need no learning."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl import names
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.features import FEATURES, LUMA_VARIANCE, MOTION_X, clip_features
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.maps import (
    MAP_FEATURES,
    STEPS,
    ZERO_MAP,
    FeatureMap,
    MotionMap,
    RandomMap,
    VarianceMap,
    feature_map,
    map_inputs,
    named_weights,
)
from reelrl.errors import ConfigError, InvalidStateError
from tests.encode.makers import BACKENDS, scene

GRID = (3, 4)
MAPS = ("no-map", "zero-map", "variance-map", "motion-map", "random-map")


def some_features(seed: int = 0, frames: int = 3) -> Any:
    return np.random.default_rng(seed).uniform(0, 50, (frames, len(FEATURES), 12)).astype(np.float32)


@given(weights=st.lists(st.floats(-1, 1, width=32), min_size=9, max_size=9), seed=st.integers(0, 50))
def test_offsets_are_whole_steps_within_range_and_turn_with_their_weights(weights: list[float], seed: int) -> None:
    features, importance = some_features(seed)[0], np.random.default_rng(seed).random(12, np.float32)
    offsets = feature_map(features, weights, GRID, importance)
    assert offsets.dtype == np.int32
    assert offsets.shape == (12,)
    assert np.abs(offsets).max() <= 3
    np.testing.assert_array_equal(feature_map(features, np.negative(weights), GRID, importance), -offsets)


@given(gain=st.floats(0.5, 4), shift=st.floats(0, 100), seed=st.integers(0, 50))
def test_the_brightness_of_a_clip_does_not_matter_to_its_map(gain: float, shift: float, seed: int) -> None:
    features = some_features(seed)[0]
    brighter = features.copy()
    brighter[0] = brighter[0] * np.float32(gain) + np.float32(shift)
    np.testing.assert_allclose(map_inputs(brighter, GRID), map_inputs(features, GRID), atol=2e-3)


def test_inputs_are_standardised_over_each_frame() -> None:
    inputs = map_inputs(some_features(), GRID, np.random.default_rng(1).random((3, 12), np.float32))
    assert inputs.shape == (3, len(MAP_FEATURES), 12)
    assert inputs.dtype == np.float32
    np.testing.assert_allclose(inputs[:, :-1].mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(inputs[:, :-1].std(-1), 1, atol=1e-5)
    assert (inputs[:, -1] == 1).all()


def test_a_clip_at_once_equals_frame_by_frame() -> None:
    features = clip_features(scene())
    together = map_inputs(features, (2, 2))
    for number, frame in enumerate(features):
        np.testing.assert_array_equal(together[number], map_inputs(frame, (2, 2)))


def test_what_is_the_same_everywhere_says_nothing() -> None:
    flat = np.full((len(FEATURES), 12), 7, np.float32)
    for name in set(MAP_FEATURES) - {"centre", "constant"}:
        assert not feature_map(flat, named_weights(**{name: 1.0}), GRID).any()
    assert feature_map(flat, named_weights(constant=1.0), GRID).tolist() == [int(STEPS)] * 12
    middle = feature_map(flat, named_weights(centre=-1.0), GRID).reshape(GRID)
    assert middle[1, 1] < 0 < middle[0, 0]
    one = feature_map(flat[:, :1], np.ones(9), (1, 1))
    assert one.tolist() == [int(STEPS)]


def test_importance_is_what_the_user_weighs() -> None:
    importance = np.zeros(12, np.float32)
    importance[5] = 1
    offsets = feature_map(some_features()[0], named_weights(importance=-0.5), GRID, importance)
    assert offsets.argmin() == 5
    assert offsets[5] < 0


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.zeros(3), ConfigError, "give 9: variance, gradient"),
        (np.full(9, np.nan), InvalidStateError, "must be finite"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        feature_map(some_features()[0], weights, GRID)
    with pytest.raises(ConfigError, match="unknown features colour"):
        named_weights(colour=1.0)


# -- controllers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
def test_every_map_controller_plays_an_episode_the_same_each_time(name: str, backend: str) -> None:
    env = SuperblockQpEnv(scene(frames=4), encoder=EncoderSettings(backend=backend, picture_qp=True))
    controller = names.resolve(names.MAP_CONTROLLERS, name)()
    assert not controller.privileged
    records = []
    for _ in range(2):
        observation, _ = env.reset(seed=3)
        controller.reset(3, env)
        ended = False
        while not ended:
            observation, _, ended, _, _ = env.step(controller.act(observation))
        records.append(json.dumps(env.episode_record()))
    assert records[0] == records[1]
    sent = [offsets is not None for offsets in json.loads(records[0])["offsets"]]
    assert any(sent) == (name != "no-map")
    assert all(sent) or name in ("no-map", "motion-map")  # before the first frame nothing has moved


def test_busy_and_moving_superblocks_get_the_higher_qps() -> None:
    features = np.zeros((1, len(FEATURES), 12), np.float32)
    features[0, LUMA_VARIANCE, :3], features[0, MOTION_X, 9:] = 900, -12
    episode = SimpleNamespace(features=features, grid=GRID, weights=np.ones((1, 12), np.float32))
    for controller, block in ((VarianceMap(), 0), (MotionMap(), 11)):
        controller.reset(0, episode)
        action = controller.act(None)
        assert action[block] > 3 > action[5]
    turned = VarianceMap(-0.5)
    turned.reset(0, episode)
    assert turned.act(None)[0] < 3


def test_random_maps_depend_on_the_seed_and_use_all_levels() -> None:
    episode: Any = SimpleNamespace(grid=(20, 20))
    controller = RandomMap()
    drawn = []
    for seed in (1, 1, 2):
        controller.reset(seed, episode)
        drawn.append(controller.act(None))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert set(drawn[0]) == set(range(7))


def test_a_feature_map_serves_any_resolution() -> None:
    controller = FeatureMap(named_weights(gradient=0.4, centre=-0.3))
    for size in ((128, 96), (256, 128)):
        env = SuperblockQpEnv(scene(frames=2, size=size), encoder=EncoderSettings(backend="svtav1", picture_qp=True))
        controller.reset(0, env)
        env.reset()
        *_, info = env.step(controller.act(None))
        assert info["map_sent"]
        assert info["offsets"].shape == (env.clip.superblock_count,)
        env.close()


def test_the_zero_map_is_one_object_in_every_process() -> None:
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(ZERO_MAP)) is ZERO_MAP
    assert copy.deepcopy(ZERO_MAP) is ZERO_MAP
