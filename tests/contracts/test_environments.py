"""What every registered environment promises, checked by the checkers of gymnasium and Stable-Baselines3."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from reelrl import names
from reelrl.encode import EncoderSettings
from reelrl.encode.minigop.source.in_process import LOW_DELAY
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from collections.abc import Callable

CLIP = "generated:street?size=128x96&frames=4"
AOM = EncoderSettings(backend="aom", picture_qp=True)
SVT = EncoderSettings(backend="svtav1", picture_qp=True)


def abr() -> dict[str, Any]:
    return {"trace_json_path": links(), "video_path": bumpy_ladder()}


def minigop(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"clips": "generated:street?size=128x96&frames=40", **changes}


def frameqp(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"clips": "generated:street?size=64x64&frames=20", **changes}


def superblock(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"video_path": CLIP, **changes}


VARIANTS: list[tuple[str, Callable[[], dict[str, Any]]]] = [
    ("reelrl/Abr-v0", abr),
    ("Av1Env-v0", superblock()),
    ("reelrl/SuperblockQP-v0", superblock(encoder=SVT)),
    ("reelrl/SuperblockQP-v0", superblock(encoder=AOM, action="features", reward="rd")),
    ("reelrl/SuperblockQP-v0", superblock(encoder=SVT, action="features", state="feedback", reward="ssim")),
    ("reelrl/SuperblockQP-v0", superblock(encoder=SVT, state="features", reward="weighted", weights="detail")),
    ("reelrl/SuperblockQP-v0", superblock(encoder=AOM, normalise=False, target_kbps=100)),
    ("reelrl/MiniGopQP-v0", minigop()),
    ("reelrl/MiniGopQP-v0", minigop(kbps=(50, 200), encoder=LOW_DELAY)),
    ("reelrl/FrameQP-v0", frameqp()),
    ("reelrl/FrameQP-v0", frameqp(kbps=(20, 80), guide="rate-model", keep_delta_q=False, gop_lengths=True)),
]
"""Every id, and the variants whose spaces or feedback differ."""


@pytest.fixture(params=VARIANTS, ids=lambda variant: variant[0])
def env(request: pytest.FixtureRequest) -> Any:
    identifier, arguments = request.param
    made = gymnasium.make(identifier, **arguments())
    yield made
    made.close()


def test_every_registered_environment_is_here() -> None:
    assert {identifier for identifier, _ in VARIANTS} == set(names.ENVIRONMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("identifier", names.ENVIRONMENTS)
def test_every_id_is_made_without_arguments_and_without_an_import(identifier: str) -> None:
    """Gymnasium imports what stands before the colon."""
    made = gymnasium.make(f"reelrl:{identifier}")
    observation, _ = made.reset(seed=0)
    assert made.observation_space.contains(observation)
    assert np.isfinite(float(made.step(made.action_space.sample())[1]))
    made.close()


@pytest.mark.slow
def test_gymnasium_has_nothing_to_say(env: gymnasium.Env[Any, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.slow
def test_stable_baselines_has_nothing_to_say(env: gymnasium.Env[Any, Any]) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    if isinstance(env.observation_space, gymnasium.spaces.Box) and len(env.observation_space.shape) == 2:
        pytest.skip("SB3 warns about every matrix that is no image; flatten it")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env.unwrapped, warn=True)


@pytest.mark.slow
def test_the_same_seed_and_actions_give_the_same_episode(env: gymnasium.Env[Any, Any]) -> None:
    def episode() -> list[Any]:
        observation, _ = env.reset(seed=5)
        env.action_space.seed(7)
        seen, ended = [observation], False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert type(reward) is float
            seen += [observation, reward]
            ended = terminated or truncated
        return seen

    for first, second in zip(episode(), episode(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_step_before_reset_or_after_the_end_says_so(env: gymnasium.Env[Any, Any]) -> None:
    bare = env.unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        bare.step(env.action_space.sample())
    bare.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = bare.step(env.action_space.sample())
        ended = terminated or truncated
    with pytest.raises(gymnasium.error.ResetNeeded):
        bare.step(env.action_space.sample())
