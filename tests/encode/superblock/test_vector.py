"""Many superblock environments at once, each with an encoder of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

from reelrl.encode import EncoderSettings
from reelrl.encode.superblock.env import SuperblockQpEnv
from tests.encode.makers import BACKENDS, SUPERBLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

RECIPE = "generated:street?size=128x96&frames=5"
WORKERS = 2
MAPS = np.random.default_rng(0).integers(0, 7, (8, WORKERS, SUPERBLOCKS))


def makers(backend: str) -> list[Callable[[], SuperblockQpEnv]]:
    chosen = EncoderSettings(backend=backend, picture_qp=True)
    return [partial(SuperblockQpEnv, RECIPE, encoder=chosen) for _ in range(WORKERS)]


def alone(backend: str) -> list[list[float]]:
    """Rewards of each worker's first episode, one after the other in this process."""
    rewards = []
    for worker, make in enumerate(makers(backend)):
        env = make()
        env.reset(seed=worker)
        rewards.append([env.step(maps[worker])[1] for maps in MAPS[:5]])
        env.close()
    return rewards


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", [gymnasium.vector.SyncVectorEnv, pytest.param(gymnasium.vector.AsyncVectorEnv, marks=pytest.mark.long)]
)
def test_gymnasium_vectors_equal_single_environments(backend: str, kind: Any) -> None:
    envs = kind(makers(backend))
    try:
        envs.reset(seed=0)
        steps = [envs.step(maps) for maps in MAPS]
    finally:
        envs.close()
    np.testing.assert_array_equal(np.array([step[1] for step in steps[:5]]).T, alone(backend))
    assert steps[4][2].all()
    np.testing.assert_array_equal(steps[0][4]["offsets"], MAPS[0] - 3)


@pytest.mark.parametrize(
    ("backend", "kind"), [("aom", "DummyVecEnv"), ("svtav1", "DummyVecEnv"), ("svtav1", "SubprocVecEnv")]
)
def test_stable_baselines_vectors_equal_single_environments(backend: str, kind: str) -> None:
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    envs = getattr(vectors, kind)(makers(backend))
    try:
        envs.reset()
        steps = [envs.step(maps) for maps in MAPS]
    finally:
        envs.close()
    rewards = np.array([step[1] for step in steps[:5]], np.float32).T  # some of SB3's vectors keep no more digits
    np.testing.assert_array_equal(rewards, np.array(alone(backend), np.float32))
    assert steps[4][2].all()
