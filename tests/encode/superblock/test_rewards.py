"""Rewards and weights: the formulas, against the slow and obvious way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.superblock import rewards
from reelrl.encode.superblock.block_error import block_means, block_sse, weighted_sse
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.weighting import LEAST, WEIGHINGS, weigh_clip, weighted_psnr
from reelrl.errors import ConfigError, InvalidRewardError
from tests.encode.makers import scene

SVT = EncoderSettings(backend="svtav1", picture_qp=True)
planes = arrays(np.uint8, st.tuples(st.integers(1, 70), st.integers(1, 70)))


def outcome(**changes: Any) -> rewards.Outcome:
    frame = next(iter(scene()))
    facts: dict[str, Any] = {
        "number": 0, "frame_type": FrameType.KEY, "qp": 40, "size_bytes": 400, "psnr": (31.0, 41.0, 42.0),
        "offsets": np.zeros(4, np.int32), "baseline_size_bytes": 500, "baseline_psnr": (30.0, 40.0, 44.0),
        "baseline_ssim": (0.9, 0.9, 0.9), "lambda_rd": 0.1, "source": frame, "recon": frame,
    }  # fmt: skip
    return rewards.Outcome(**facts | changes)


def test_the_formulas() -> None:
    assert rewards.psnr_gain(outcome()) == 1.0
    assert rewards.rd(outcome()) == pytest.approx(1.0 + 0.5 - 1.0 + 2 * 100 / 400)
    assert rewards.rd(outcome(lambda_rd=0.2)) == pytest.approx(0.5 + 4 * 100 / 400)
    assert rewards.rd(outcome(lambda_rd=0.0)) == pytest.approx(0.5)
    assert rewards.ssim_gain(outcome()) == pytest.approx(0.1)
    full = np.full((96, 128), 255, np.uint8)
    assert rewards.weighted_gain(outcome(weights=full, baseline_weighted_psnr=31.0)) == 100.0 - 31.0


def test_weighted_psnr_without_weights_says_how_to_get_them() -> None:
    with pytest.raises(ConfigError, match="make the environment with weights="):
        rewards.weighted_gain(outcome())


@pytest.mark.parametrize("name", sorted(rewards.REWARDS.keys() - {"equal_rate"}))  # whose law is test_over_time's
@pytest.mark.parametrize("backend", ["aom", "svtav1"])
def test_no_map_is_worth_nothing_by_any_reward(name: str, backend: str) -> None:
    chosen = EncoderSettings(backend=backend, picture_qp=True)
    env = SuperblockQpEnv(scene(), encoder=chosen, reward=name, weights="moving", max_frames=4)
    env.reset()
    assert [env.step(None)[1] for _ in range(4)] == pytest.approx([0.0] * 4, abs=1e-12)


@pytest.mark.parametrize("name", ["psnr_gain", "ssim", "weighted"])
def test_more_bits_everywhere_are_worth_something(name: str) -> None:
    env = SuperblockQpEnv(scene(), reward=name, weights="detail", max_frames=4)
    env.reset()
    assert all(env.step(np.zeros(4, np.int64))[1] > 0 for _ in range(4))


def test_users_rewards_see_the_outcome() -> None:
    env = SuperblockQpEnv(scene(), reward=lambda seen: -seen.size_bytes, encoder=SVT, max_frames=2)
    env.reset()
    _, reward, _, _, info = env.step(None)
    assert reward == -info["bitstream_size"]
    assert type(reward) is float
    env.close()


def test_a_reward_that_raises_is_told_with_its_frame_and_the_environment_lives_on() -> None:
    def moody(seen: rewards.Outcome) -> float:
        return 1 / (seen.number - 2)

    env = SuperblockQpEnv(scene(), reward=moody, encoder=SVT)
    for _ in range(2):
        env.reset()
        env.step(None)
        env.step(None)
        with pytest.raises(ZeroDivisionError) as caught:
            env.step(None)
        assert "reward of frame 2" in caught.value.__notes__[0]
    env.close()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad: float) -> None:
    env = SuperblockQpEnv(scene(), reward=lambda _: bad, encoder=SVT, max_frames=2)
    env.reset()
    with pytest.raises(InvalidRewardError, match=f"reward of frame 0 is {bad}"):
        env.step(None)
    env.close()


# -- weights ---------------------------------------------------------------------------------------------------------


@given(a=planes, seed=st.integers(0, 99))
def test_errors_are_the_sums_they_say(a: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    b, weights = (rng.integers(0, 256, a.shape).astype(np.uint8) for _ in range(2))
    squares = (a.astype(np.int64) - b) ** 2
    assert weighted_sse(a, b, weights) == ((weights * squares).sum(), weights.sum(dtype=np.int64))
    corners = [(row, column) for row in range(0, a.shape[0], 64) for column in range(0, a.shape[1], 64)]
    assert block_sse(a, b).tolist() == [squares[r : r + 64, c : c + 64].sum() for r, c in corners]
    np.testing.assert_allclose(block_means(a), [a[r : r + 64, c : c + 64].mean() for r, c in corners], rtol=1e-6)


def test_even_weights_are_plain_psnr_and_the_rest_looks_away() -> None:
    frame = next(iter(scene()))
    worse = Frame(frame.data.copy(), frame.width, frame.height)
    worse.y[:, :64] ^= 8
    even, left, right = (np.zeros((96, 128), np.uint8) for _ in range(3))
    even[:], left[:, :64], right[:, 64:] = 7, 255, 255
    assert weighted_psnr(frame, worse, even) == pytest.approx(10 * math.log10(255**2 / 32))
    assert weighted_psnr(frame, worse, left) == pytest.approx(10 * math.log10(255**2 / 64))
    assert weighted_psnr(frame, worse, right) == 100.0
    with pytest.raises(ConfigError, match="use one size"):
        weighted_psnr(frame, worse, even[:64])


@pytest.mark.parametrize("name", sorted({*WEIGHINGS} - {"text"}))
def test_named_weights_reach_from_least_to_full(name: str) -> None:
    clip = generated_clip("talk" if name == "moving" else "screen", size=(320, 192), frames=4).load()
    weights = weigh_clip(clip, name)
    assert weights.blocks.shape == (4, 15)
    for number in range(4):
        assert weights.frame(number).shape == (192, 320)
        assert weights.frame(number).min() >= round(255 * LEAST)
        assert weights.blocks[number].max() > 1.5 * weights.blocks[number].min()


def test_a_still_clip_has_nothing_that_moves() -> None:
    frame = next(iter(scene()))
    still = weigh_clip(type(scene()).from_frames([frame] * 3, fps=30), "moving")
    assert {int(value) for value in still.frame(2).ravel()} == {round(255 * LEAST)}


def test_weights_may_be_a_picture_or_a_function() -> None:
    mask = np.zeros((96, 128))
    mask[:64, :64] = 0.5
    fixed = weigh_clip(scene(), mask)
    assert fixed.blocks[7].tolist() == [1, 0, 0, 0]
    moved = weigh_clip(scene(), lambda frame, number: np.roll(mask, 64 * number, axis=1))
    assert moved.blocks[1].tolist() == [0, 1, 0, 0]
    empty = weigh_clip(scene(), np.zeros((96, 128)))
    assert empty.blocks[0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("center", "did you mean 'centre'"),
        (np.ones((96, 96)), r"shape \(96, 96\), the clip's frames are \(96, 128\)"),
        (np.full((96, 128), -1.0), "not negative"),
        (np.full((96, 128), np.nan), "finite"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        weigh_clip(scene(), weights)


def test_the_weighted_reward_has_weights_of_its_own_until_told() -> None:
    env = SuperblockQpEnv(scene(), reward="weighted", encoder=SVT, max_frames=2)
    np.testing.assert_array_equal(env.weights, weigh_clip(env.clip, "centre").blocks)
    assert SuperblockQpEnv(scene(), encoder=SVT, max_frames=2).weights.tolist() == [[1.0] * 4] * 2
