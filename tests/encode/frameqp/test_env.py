"""The environment over libaom's coded frames: what rewards add up to, replay, and leaving in the middle."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest

from reelrl.content.sources import open_clip
from reelrl.encode.frameqp.controllers.rules import FrameRateModel
from reelrl.encode.frameqp.env import FrameQpEnv
from reelrl.encode.frameqp.record import replay
from reelrl.encode.frameqp.reference import mixed_psnr
from reelrl.encode.frameqp.run import run_frame_controller
from reelrl.encode.frameqp.source.preparation import FramePreparation
from reelrl.errors import ConfigError, EncoderError, InvalidStateError

CLIP = "generated:cuts?size=96x64&frames=40"
KBPS = 80.0


@cache
def prepared() -> FramePreparation:
    return FramePreparation(open_clip(CLIP).load())


def played(env: FrameQpEnv, actions: np.random.Generator | None) -> tuple[float, float, dict[str, Any]]:
    """Rewards and costs of an episode, and its last info; without a generator all actions are 0."""
    env.reset(seed=0)
    reward = cost = 0.0
    ended = False
    while not ended:
        action = np.zeros(1) if actions is None else actions.uniform(-1, 1, 1)
        _, gained, ended, _, info = env.step(action)
        reward, cost = reward + gained, cost + info["cost"]
    return reward, cost, info


def test_rewards_add_up_to_decibels_above_the_rule_at_the_bits_spent_and_the_record_gives_the_same_bytes() -> None:
    env = FrameQpEnv(CLIP, KBPS)
    reward, cost, info = played(env, np.random.default_rng(1))
    source = env._finished
    assert source is not None
    rule = run_frame_controller(prepared().source(kbps=KBPS), FrameRateModel())
    pixels = 96 * 64
    ours, theirs = (
        mixed_psnr([packet.luma_sse_in_8_bits for packet in packets], pixels)
        for packets in (source.packets, rule.packets)
    )
    bits = 8 * sum(packet.size for packet in source.packets)
    slope = env._references[0, KBPS].db_per_octave
    assert reward == pytest.approx(ours - theirs - slope * np.log2(bits / rule.bits), abs=1e-6)
    assert info["rate_error"] == pytest.approx(bits / source.episode.budget_bits - 1)
    assert cost == pytest.approx(max(info["rate_error"], 0))
    record = env.episode_record()
    assert replay(record) == b"".join(packet.data for packet in source.packets)
    with pytest.raises(EncoderError, match="other bytes"):
        replay(record | {"qindexes": [100, *record["qindexes"][1:]]})


def test_doing_as_the_rule_does_earns_nothing() -> None:
    reward, _, info = played(FrameQpEnv(CLIP, KBPS, guide="rate-model"), None)
    assert reward == 0
    assert abs(info["rate_error"]) < 0.05


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_an_episode_can_be_left_at_any_step(steps: int) -> None:
    env = FrameQpEnv(CLIP, KBPS)
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros(1))
    env.reset(seed=1)
    env.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "aom-two-pass"]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1))


@pytest.mark.parametrize("bad", [[np.nan], [1.5], [0.0, 0.0], [np.inf]])
def test_a_bad_action_is_refused_and_the_episode_goes_on(bad: list[float]) -> None:
    env = FrameQpEnv(CLIP, KBPS)
    env.reset(seed=0)
    with pytest.raises((ConfigError, InvalidStateError)):
        env.step(np.array(bad))
    env.step(np.zeros(1))
    env.close()


@pytest.mark.long
def test_environments_in_worker_processes_give_the_same_episodes() -> None:
    def make() -> FrameQpEnv:
        return FrameQpEnv(CLIP, KBPS)

    alone = make()
    alone.reset(seed=3)
    envs = gymnasium.vector.AsyncVectorEnv([make, make], context="spawn", shared_memory=False)
    envs.reset(seed=[3, 3])
    for _ in range(12):
        seen, reward, *_ = alone.step(np.full(1, 0.25))
        both, rewards, *_ = envs.step(np.full((2, 1), 0.25, np.float32))
        np.testing.assert_array_equal(both, [seen, seen])
        np.testing.assert_allclose(rewards, reward)
    envs.close()
    alone.close()
