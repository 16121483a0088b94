"""SuperblockQpEnv and what should not be given to it: a clear error, and nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.content.clip import Clip
from reelrl.content.frame import Frame
from reelrl.encode import EncoderSettings
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.errors import ConfigError, ContentError, EncoderError, EncoderTimeout, InvalidStateError
from tests.encode.makers import BACKENDS, SUPERBLOCKS, scene

if TYPE_CHECKING:
    from pathlib import Path

SVT = EncoderSettings(backend="svtav1", picture_qp=True)


def env_on(backend: str = "svtav1", **arguments: Any) -> SuperblockQpEnv:
    chosen = EncoderSettings(backend=backend, picture_qp=True)
    return SuperblockQpEnv(scene(frames=4), **{"encoder": chosen} | arguments)


WRONG_MAPS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros(3, np.int64), ConfigError, r"shape \(3,\), this clip has 4 superblocks"),
    (np.zeros((2, 2), np.int64), ConfigError, r"shape \(2, 2\)"),
    (0, ConfigError, r"shape \(\)"),
    ([[1], [2, 3]], ConfigError, "no array"),
    (np.array([0, 1, 2, 7]), ConfigError, "goes from 0 to 7; 0 to 6"),
    (np.array([-1, 1, 2, 3]), ConfigError, "goes from -1 to 3"),
    (np.array([2**40, 1, 2, 3]), ConfigError, "0 to 6"),
    (np.ones(4), ConfigError, "float64; give whole numbers"),
    (np.ones(4, bool), ConfigError, "bool; give whole numbers"),
    (np.array(["a"] * 4), ConfigError, "give whole numbers"),
    (np.array([1, np.nan, 2, 3]), InvalidStateError, "holds nan"),
    (np.array([1, np.inf, 2, 3]), InvalidStateError, "holds inf"),
]
WRONG_WEIGHTS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros(3), ConfigError, r"shape \(3,\); give 9 weights"),
    (np.full(9, 1.5), ConfigError, "-1 to 1 is allowed"),
    (np.full(9, np.nan), InvalidStateError, "holds nan"),
    (np.array([None] * 9), ConfigError, "give numbers"),
]


@pytest.mark.parametrize("kind", ["map", "features"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_action_is_refused_and_the_episode_goes_on(kind: str, backend: str) -> None:
    env = env_on(backend, action=kind)
    right = np.full(SUPERBLOCKS, 1) if kind == "map" else np.full(9, 0.3)
    env.reset()
    for _ in range(4):
        env.step(right)
    untouched = env._packets
    env.reset()
    for _ in range(4):
        for action, error, message in WRONG_MAPS if kind == "map" else WRONG_WEIGHTS:
            with pytest.raises(error, match=message):
                env.step(action)
        env.step(right)
    assert env._packets == untouched


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "maps"}, "did you mean 'map'"),
        ({"reward": "psnr"}, "did you mean 'psnr_gain'"),
        ({"reward": 3}, "reward is a int; give a name or a function"),
        ({"reward": "no_such_pkg:reward"}, "no module"),
        ({"state": "nave"}, "unknown state 'nave'; did you mean 'naive'"),
        ({"lambda_rd": -1.0}, "lambda_rd = -1.0"),
        ({"lambda_rd": float("nan")}, "lambda_rd = nan"),
        ({"max_frames": 0}, "max_frames = 0"),
        ({"max_frames": 2.5}, "max_frames = 2.5"),
        ({"target_kbps": 0}, "target_kbps = 0"),
        ({"target_kbps": float("inf")}, "target_kbps = inf"),
        ({"weights": "middle"}, "unknown weights 'middle'"),
        ({"encoder": EncoderSettings(rate_control="cbr", target_kbps=100)}, "would ignore every map; use cqp"),
        ({"encoder": EncoderSettings(structure="random_access")}, "use low_delay"),
        ({"encoder": EncoderSettings(backend="aom", rate_control="crf")}, "libaom takes maps in cqp only"),
        ({"encoder": EncoderSettings(backend="aom", hierarchical_levels=3)}, "the aom backend has none"),
        ({"encoder": EncoderSettings(backend="x266")}, "unknown backend 'x266'"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_given(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        env_on(**arguments)


def test_a_video_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty.y4m").touch()
    (tmp_path / "text.mp4").write_text("no video")
    for path, message in (
        (tmp_path / "absent.y4m", "neither a file nor in the catalogue"),
        (tmp_path / "empty.y4m", "is empty"),
        (tmp_path / "text.mp4", "text.mp4"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(ContentError, match=message):
            SuperblockQpEnv(path)


def test_unknown_reset_options_are_refused() -> None:
    env = env_on()
    with pytest.raises(ConfigError, match="reset options"):
        env.reset(options={"start": 3})


def test_frames_that_do_not_exist_have_no_size() -> None:
    env = env_on()
    env.reset()
    env.step(None)
    for number in (1, -1):
        with pytest.raises(ConfigError, match="is not coded yet; this episode has 1 frames"):
            env.get_byte_usage_diff(number)
    env.close()


def test_there_is_no_record_before_the_first_step(tmp_path: Path) -> None:
    env = env_on()
    with pytest.raises(ConfigError, match="no episode to record"):
        env.episode_record()
    with pytest.raises(ConfigError, match="schema None"):
        env.replay({})
    env.reset()
    for _ in range(4):
        env.step(None)
    with pytest.raises(ConfigError, match=r"does not end in \.ivf"):
        env.save_bitstream_to_file(tmp_path / "out.avi")


def test_an_encoder_that_fails_in_mid_episode_leaves_a_usable_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    env = env_on()
    env.reset()
    env.step(None)
    session = env._session
    assert session is not None
    with monkeypatch.context() as patch:
        patch.setattr(session, "_encode", lambda *_: (_ for _ in ()).throw(EncoderTimeout("too slow")))
        with pytest.raises(EncoderError, match="too slow"):
            env.step(None)
    env.reset()
    for _ in range(4):
        env.step(None)
    assert env._packets == env.baseline.packets


def test_a_clip_that_changes_under_way_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips too large for memory are read in every episode."""
    from reelrl.content.write.video import write_video
    from reelrl.encode import clip_choice

    monkeypatch.setattr(clip_choice, "IN_MEMORY_BYTES", 0)
    path = tmp_path / "clip.y4m"
    write_video(path, scene(frames=4))
    env = SuperblockQpEnv(path, encoder=SVT)
    env.reset()
    for _ in range(4):
        env.step(None)
    assert env._packets == env.baseline.packets
    write_video(path, scene(frames=2))
    with pytest.raises(ContentError, match="has 2 frames, 4 were expected"):
        env.reset()
    env.close()


def test_a_cache_that_cannot_be_written_costs_a_warning_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="computed each time"):
        env = env_on()
    env.reset()
    env.step(None)
    env.close()


def test_pictures_without_content_are_pictures_too() -> None:
    black = Frame.empty(64, 64)
    black.data[:] = 0
    for state in ("naive", "feedback"):
        env = SuperblockQpEnv(Clip.from_frames([black] * 3, fps=30), encoder=SVT, state=state, reward="rd")
        observation, _ = env.reset()
        for action in ([0], [6], [3]):
            assert np.isfinite(observation).all()
            observation, reward, *_ = env.step(np.array(action))
            assert np.isfinite(reward)
