"""Observations: what each state shows, and how it is normalised."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.features import MOTION_X, MOTION_Y
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.states import (
    LARGEST,
    AbstractState,
    BaselineObservation,
    ClipView,
    EmbeddingState,
    NaiveState,
    Normalisation,
    Superblocks,
)
from reelrl.errors import ConfigError, InvalidStateError
from tests.encode.makers import scene

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Frame

CLIP = scene("street", 6, (160, 96))
BLOCKS = 6
SVT = EncoderSettings(backend="svtav1", picture_qp=True)


def env_with(state: Any = "naive", **arguments: Any) -> SuperblockQpEnv:
    return SuperblockQpEnv(CLIP, encoder=SVT, state=state, **arguments)


def observations(env: SuperblockQpEnv, action: Any = None) -> NDArray[np.float32]:
    observation, _ = env.reset()
    seen = [observation]
    while not env.step(action)[2]:
        seen.append(env._normalised(env.state.get_observation(*_next(env))))
    env.close()
    return np.stack(seen)


def _next(env: SuperblockQpEnv) -> tuple[Frame, Superblocks, FrameType, int]:
    assert env._frame is not None
    return env._frame, env.prepared.described(env._number, 40), FrameType.INTER, env._number


def test_naive_is_feature_major_in_the_encoders_order() -> None:
    env = env_with(normalise=False)
    observation, _ = env.reset()
    rows = observation.reshape(4, BLOCKS)
    frame = next(iter(CLIP))
    for block in range(BLOCKS):
        top, left = block // 3 * 64, block % 3 * 64
        here = np.s_[top : top + 64, left : left + 64]
        chroma = np.s_[top // 2 : top // 2 + 32, left // 2 : left // 2 + 32]
        assert rows[0, block] == pytest.approx(frame.y[here].astype(float).var(), rel=1e-4)
        levels = [frame.y[here].mean(), frame.u[chroma].mean(), frame.v[chroma].mean()]
        assert rows[3, block] == pytest.approx(np.mean(levels), rel=1e-4)
    assert not rows[1:3].any()  # nothing has moved before the first frame
    observation = env.step(None)[0]
    np.testing.assert_array_equal(observation.reshape(4, BLOCKS)[1:3], env.features[1, [MOTION_X, MOTION_Y]])
    env.close()


def test_the_naive_space_has_no_bounds_and_the_environments_has() -> None:
    env = env_with(normalise=False)
    assert env.state.get_observation_space() == spaces.Box(-np.inf, np.inf, (4 * BLOCKS,), np.float32)
    assert isinstance(env.observation_space, spaces.Box)
    assert env.observation_space.is_bounded()
    assert env_with().observation_space == spaces.Box(-LARGEST, LARGEST, (4 * BLOCKS,), np.float32)


@pytest.mark.parametrize("state", ["naive", "features", "feedback"])
def test_normalised_by_the_baseline_pass_groups_have_mean_zero_and_deviation_one(state: str) -> None:
    env = env_with(state)
    seen, groups = observations(env), env.state.get_groups()
    for group in range(groups.max() + 1):
        values = seen[:, groups == group]
        assert values.mean() == pytest.approx(0, abs=1e-3)
        assert values.std() == pytest.approx(1, abs=1e-2) or np.ptp(values) == 0


def test_feedback_shows_the_last_decision_and_what_came_of_it() -> None:
    env = env_with("feedback", normalise=False)
    env.reset()
    action = np.arange(BLOCKS) % 7
    observation, _, _, _, info = env.step(action)
    rows, numbers = observation[:-6].reshape(10, BLOCKS), observation[-6:]
    assert env.outcome is not None
    np.testing.assert_allclose(rows[8], (action - 3) / 3)
    pixels = np.array([64 * 64, 64 * 64, 32 * 64, 64 * 32, 64 * 32, 32 * 32])
    np.testing.assert_allclose(rows[9], np.log1p(env.outcome.block_sse / pixels), rtol=1e-6)
    assert env.outcome.block_sse.sum() == pytest.approx(10 ** (-info["psnr"][0] / 10) * 255**2 * 160 * 96)
    size = info["bitstream_size"] / info["baseline_bitstream_size"]
    gain = info["psnr"][0] - info["baseline_psnr"][0]
    np.testing.assert_allclose(numbers, [0, 40 / 63, 1 / 6, size, gain, size], rtol=1e-5)
    again, _ = env.reset()
    np.testing.assert_array_equal(again[-6:], np.array([1, 40 / 63, 0, 1, 0, 1], np.float32))
    assert not again[:-6].reshape(10, BLOCKS)[8:].any()
    env.close()


def test_an_embedding_joins_the_features() -> None:
    state = partial(EmbeddingState, embed=lambda frame: frame.y[:2, :4].ravel())
    env = env_with(state, normalise=False)
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation[-8:], next(iter(CLIP)).y[:2, :4].ravel())
    assert observation.shape == (8 * BLOCKS + 8,)
    env.close()


def test_a_normalisation_learnt_on_one_clip_serves_at_another_resolution() -> None:
    learnt = env_with().normalisation
    other = SuperblockQpEnv(scene("street", 6, (256, 128)), encoder=SVT, normalise=learnt or True)
    assert other.normalisation is learnt
    with pytest.raises(ConfigError, match="has 4 groups, this state has 8"):
        env_with("features", normalise=learnt)


class Motion(AbstractState):
    """As a user would write one, from the dicts."""

    def get_observation(
        self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int
    ) -> NDArray[np.float32]:
        return np.array([picture_number, *(sb["sb_x_mv"] for sb in sbs)], np.float32)

    def get_observation_length(self) -> int:
        return 1 + self.video_reader.get_num_superblock()


def test_users_write_states_from_dicts() -> None:
    env = env_with(Motion, normalise=False)
    first, _ = env.reset()
    second = env.step(None)[0]
    assert first[0] == 0
    np.testing.assert_array_equal(second[1:], np.rint(env.features[1, MOTION_X]))
    assert len(env.state.baseline_observations) == CLIP.frame_count
    env.close()


def test_states_are_found_by_the_name_of_their_module_too() -> None:
    assert isinstance(env_with("tests.encode.superblock.test_states:Motion").state, Motion)
    with pytest.raises(ConfigError, match="did you mean 'naive'"):
        env_with("naiv")


def test_superblocks_are_described_as_scripts_know_them() -> None:
    sbs = Superblocks(np.full((8, BLOCKS), 1.6, np.float32), 40, 160, 96)
    assert sbs[-1] == {
        "sb_org_x": 128,
        "sb_org_y": 64,
        "sb_width": 32,
        "sb_height": 32,
        "sb_qindex": 160,
        "sb_x_mv": 2,
        "sb_y_mv": 2,
    }
    assert len(list(sbs)) == BLOCKS
    assert sbs[1:3] == [sbs[1], sbs[2]]
    with pytest.raises(IndexError):
        sbs[BLOCKS]


def test_what_is_not_finite_becomes_the_largest_the_baseline_had() -> None:
    calm = np.arange(8 * BLOCKS, dtype=np.float32).reshape(8, BLOCKS)
    told = [BaselineObservation(0, FrameType.KEY, Superblocks(calm, 40, 160, 96), 100, (30.0, 40.0, 40.0))]
    state = NaiveState(ClipView(CLIP), told)
    wild = calm.copy()
    wild[1, 0], wild[5, 2], wild[2, 1] = np.nan, np.inf, -np.inf
    seen = state.get_observation(next(iter(CLIP)), Superblocks(wild, 40, 160, 96), FrameType.INTER, 0).reshape(4, -1)
    assert (seen[0, 0], seen[1, 2], seen[3, 1]) == (calm[1].max(), calm[5].max(), calm[2].max())


class Late(AbstractState):
    """Turns bad at a frame."""

    def __init__(self, *args: Any, bad: float, at: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bad, self.at = bad, at

    def get_observation(
        self, frame: Frame, sbs: Superblocks, frame_type: FrameType, picture_number: int
    ) -> NDArray[np.float32]:
        return np.array([0.0, self.bad if picture_number == self.at else 1.0], np.float32)

    def get_observation_length(self) -> int:
        return 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_refused_by_frame_and_number(bad: float) -> None:
    env = env_with(partial(Late, bad=bad, at=2), normalise=False)
    env.reset()
    env.step(None)
    with pytest.raises(InvalidStateError, match=f"number 1 of the state of frame 2 is {bad}"):
        env.step(None)
    env.reset()
    env.close()
    with pytest.raises(InvalidStateError, match="frame 2"):
        env_with(partial(Late, bad=bad, at=2))


def test_a_state_of_another_length_than_it_promised_is_refused() -> None:
    with pytest.raises(InvalidStateError, match=r"has shape \(7,\); it promised \(3,\)"):
        env_with(type("Short", (Motion,), {"get_observation_length": lambda _: 3}))


@given(values=st.lists(st.floats(-1e4, 1e4, width=32), min_size=4, max_size=40), groups=st.integers(1, 4))
def test_normalisation_is_undone_by_its_own_numbers(values: list[float], groups: int) -> None:
    table = np.array(values[: len(values) // 4 * 4], np.float32).reshape(-1, 4)
    grouping = np.arange(4) % groups
    mean, scale = Normalisation.learn(table, grouping).spread(grouping)
    np.testing.assert_allclose((table - mean) * scale / scale + mean, table, rtol=1e-4, atol=1e-1)
    assert np.isfinite(scale).all()
