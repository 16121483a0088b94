"""SuperblockQpEnv as its users meet it, on both encoders."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.content.write.video import write_video
from reelrl.encode import EncoderSettings, FrameType, encode_clip
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.superblock import baseline
from reelrl.encode.superblock import record as episodes
from reelrl.encode.superblock.env import Av1GymEnv, SuperblockQpEnv
from reelrl.encode.superblock.maps import MAP_FEATURES, ZERO_MAP, action_of, feature_map
from reelrl.encode.superblock.states import Normalisation
from reelrl.errors import ContentError, EncoderError
from tests.encode.makers import BACKENDS, SUPERBLOCKS, scene, thread_count, threads_fall_to

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytestmark = pytest.mark.slow

RECIPE = "generated:street?size=128x96&frames=8"
FRAMES = 8


def settings(backend: str, **changes: Any) -> EncoderSettings:
    return EncoderSettings(backend=backend, picture_qp=True, **changes)


@pytest.fixture(params=BACKENDS)
def env(request: pytest.FixtureRequest) -> Any:
    made = SuperblockQpEnv(RECIPE, encoder=settings(request.param))
    yield made
    made.close()


def random_maps(frames: int = FRAMES, seed: int = 3) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 7, (frames, SUPERBLOCKS))


def play(env: SuperblockQpEnv, actions: Any, seed: int = 1) -> list[tuple[float, dict[str, Any]]]:
    env.reset(seed=seed)
    steps = []
    for action in actions:
        _, reward, ended, truncated, info = env.step(action)
        assert not truncated
        steps.append((reward, info))
    assert ended
    return steps


def test_the_defaults_are_the_documented_ones() -> None:
    env = Av1GymEnv(RECIPE)
    assert (env.settings.backend, env.settings.preset, env.settings.threads) == ("aom", 10, 1)
    assert (env.settings.rate_control, env.settings.structure, env.settings.qp) == ("cqp", "low_delay", 40)
    assert (env.lambda_rd, env.action, env.target_kbps) == (0.1, "map", None)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([7] * SUPERBLOCKS)
    assert env.observation_space.shape == (4 * SUPERBLOCKS,)
    assert (env.grid, env.superblocks, env.features.shape) == ((2, 2), 4, (FRAMES, 8, 4))


def test_one_step_is_one_frame_and_tells_what_it_cost(env: SuperblockQpEnv) -> None:
    maps = random_maps()
    steps = play(env, maps)
    decoded = decode(env._packets)
    for number, (reward, info) in enumerate(steps):
        assert info["frame_number"] == number
        assert info["bitstream_size"] == len(env._packets[number])
        assert info["qp"] == 40
        assert info["frame_type"] == (FrameType.INTER if number else FrameType.KEY)
        np.testing.assert_array_equal(info["offsets"], maps[number] - 3)
        assert info["baseline_bitstream_size"] == env.baseline.bytes[number]
        assert info["baseline_psnr"] == tuple(env.baseline.psnr[number])
        assert reward == info["psnr"][0] - info["baseline_psnr"][0]
        assert env.get_byte_usage_diff(number) == (
            info["baseline_bitstream_size"] - info["bitstream_size"],
            info["bitstream_size"],
        )
    assert len(decoded) == FRAMES
    assert env.outcome is not None
    assert env.outcome.recon == decoded[-1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_map_is_the_encoder_left_alone(backend: str) -> None:
    env = SuperblockQpEnv(RECIPE, encoder=settings(backend))
    alone = encode_clip(generated_clip("street", size=(128, 96), frames=FRAMES), env.settings)
    for action in (None, np.full(SUPERBLOCKS, 3)):
        steps = play(env, [action] * FRAMES)
        assert env._packets == [packet.data for packet in alone.packets] == env.baseline.packets
        assert {reward for reward, _ in steps} == {0.0}
        assert not any(info["map_sent"] for _, info in steps)


def test_a_map_of_zeros_is_really_sent(env: SuperblockQpEnv) -> None:
    steps = play(env, [ZERO_MAP] * FRAMES)
    assert all(info["map_sent"] for _, info in steps)
    extra = sum(map(len, env._packets)) - env.baseline.total_bytes
    assert extra == 0 if env.settings.backend == "aom" else 5 * FRAMES < extra < 25 * FRAMES


def test_a_map_between_frames_without_one_does_not_stick(env: SuperblockQpEnv) -> None:
    """SVT-AV1 keeps a map in force until told otherwise."""
    play(env, [None, np.full(SUPERBLOCKS, 0), *[None] * (FRAMES - 2)])
    sizes = [len(packet) for packet in env._packets]
    assert sizes[0] == env.baseline.bytes[0]
    assert sizes[1] > env.baseline.bytes[1]
    # What follows is predicted from a better picture, so it takes fewer bytes and not more.
    assert sum(sizes[2:]) < 1.1 * env.baseline.bytes[2:].sum()


def test_weights_of_features_are_the_map_they_stand_for(env: SuperblockQpEnv) -> None:
    low = SuperblockQpEnv(RECIPE, encoder=env.settings, action="features")
    assert low.action_space == gymnasium.spaces.Box(-1, 1, (len(MAP_FEATURES),), np.float32)
    weights = np.random.default_rng(0).uniform(-1, 1, (FRAMES, len(MAP_FEATURES)))
    steps = play(low, weights)
    maps = [feature_map(env.features[i], weights[i], env.grid) for i in range(FRAMES)]
    for offsets, (_, info) in zip(maps, steps, strict=True):
        np.testing.assert_array_equal(info["offsets"], offsets)
    play(env, [action_of(offsets) for offsets in maps])
    assert env._packets == low._packets
    play(low, [np.zeros(len(MAP_FEATURES))] * FRAMES)
    assert low._packets == low.baseline.packets


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bitrate_is_held_by_our_own_loop_under_any_maps(backend: str) -> None:
    clip = generated_clip("street", size=(128, 96), frames=60)
    env = SuperblockQpEnv(clip, encoder=settings(backend), target_kbps=100)
    base = env.baseline.total_bytes * 8 / clip.duration_s / 1000
    assert base == pytest.approx(100, rel=0.25)
    play(env, random_maps(60))
    qps = {qp for qp, _ in env._sent}
    assert sum(map(len, env._packets)) * 8 / clip.duration_s / 1000 == pytest.approx(100, rel=0.25)
    assert len(qps) > 3
    assert env.replay(env.episode_record()) == b"".join(env._packets)


def test_max_frames_is_a_window_and_may_be_longer_than_the_clip() -> None:
    short = SuperblockQpEnv(RECIPE, max_frames=3)
    assert short.clip.frame_count == len(short.baseline.bytes) == 3
    play(short, [None] * 3)
    assert SuperblockQpEnv(RECIPE, max_frames=100).clip.frame_count == FRAMES


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("frames", [1, 2])
def test_the_shortest_clips_are_episodes_too(backend: str, frames: int) -> None:
    env = SuperblockQpEnv(
        RECIPE, max_frames=frames, encoder=settings(backend, keyint=16), state="feedback", reward="weighted",
        weights="moving",
    )  # fmt: skip
    steps = play(env, random_maps(frames))
    assert len(steps) == frames
    assert env.replay(env.episode_record()) == b"".join(env._packets)


def test_key_frames_come_where_the_settings_say(env: SuperblockQpEnv) -> None:
    keyed = SuperblockQpEnv(RECIPE, encoder=settings(env.settings.backend, keyint=3))
    kinds = [info["frame_type"] for _, info in play(keyed, random_maps())]
    assert kinds == [FrameType.KEY if i % 3 == 0 else FrameType.INTER for i in range(FRAMES)]


# -- the baseline ----------------------------------------------------------------------------------------------------


def test_the_baseline_is_coded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = scene("talk", FRAMES)
    first = SuperblockQpEnv(clip, encoder=settings("svtav1"))
    monkeypatch.setattr(baseline, "_code", lambda *_: pytest.fail("coded again"))
    again = SuperblockQpEnv(clip, encoder=settings("svtav1", deadline_s=5.0), state="features", reward="rd")
    for name in ("bytes", "sse", "ssim", "qp", "frame_types", "block_sse", "stream"):
        np.testing.assert_array_equal(getattr(first.baseline, name), getattr(again.baseline, name))


@pytest.mark.parametrize("changed", ["qp", "preset", "kbps", "content", "window", "build"])
def test_whatever_changes_the_stream_changes_the_baseline(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clip, chosen, kbps = scene("talk", FRAMES), settings("svtav1"), None
    key = baseline._key(clip, chosen, kbps)
    if changed == "qp":
        chosen = settings("svtav1", qp=41)
    elif changed == "preset":
        chosen = settings("svtav1", preset=8)
    elif changed == "kbps":
        kbps = 100.0
    elif changed == "content":
        clip = scene("talk", FRAMES, seed=1)
    elif changed == "window":
        clip = clip.window(0, 5)
    else:
        monkeypatch.setattr(baseline, "capabilities", lambda _: type("Found", (), {"version": "0.0"}))
    assert baseline._key(clip, chosen, kbps) != key


def test_a_damaged_baseline_is_coded_again(own_cache: Path) -> None:
    clip = scene("water", FRAMES)
    sound = SuperblockQpEnv(clip, encoder=settings("svtav1")).baseline
    for file in (own_cache / "baselines").iterdir():
        file.write_bytes(file.read_bytes()[:-40])
    np.testing.assert_array_equal(SuperblockQpEnv(clip, encoder=settings("svtav1")).baseline.stream, sound.stream)


def test_identical_planes_have_a_finite_psnr_of_no_great_weight() -> None:
    env = SuperblockQpEnv(RECIPE)
    assert baseline.plane_psnr((0, 0, 0), 128 * 96, env.baseline.psnr_cap) == tuple(env.baseline.psnr.max(0) + 6)
    assert baseline.plane_psnr((0, 0, 0), 128 * 96) == (100.0, 100.0, 100.0)


# -- what remains of an episode --------------------------------------------------------------------------------------


def test_a_record_survives_json_and_replays_to_the_same_bytes(env: SuperblockQpEnv) -> None:
    actions: list[Any] = [*random_maps(5), None, ZERO_MAP, np.full(SUPERBLOCKS, 3)]
    play(env, actions, seed=9)
    record = json.loads(json.dumps(env.episode_record()))
    stream = b"".join(env._packets)
    assert env.replay(record) == stream
    assert episodes.replay(record) == stream  # the clip is found by its recipe
    assert record["seed"] == 9
    assert record["totals"]["bytes"] == len(stream)
    assert record["offsets"][5] is None
    assert record["offsets"][6] == [0] * SUPERBLOCKS
    assert record["offsets"][7] is None


def test_an_episode_left_early_replays_too(env: SuperblockQpEnv) -> None:
    env.reset()
    for action in random_maps(3):
        env.step(action)
    assert env.replay(env.episode_record()) == b"".join(env._packets)


def test_replay_names_what_differs(env: SuperblockQpEnv) -> None:
    play(env, random_maps())
    record = env.episode_record()
    with pytest.raises(ContentError, match="other pictures"):
        episodes.replay(record, scene("talk", FRAMES))
    with pytest.raises(EncoderError, match=r"was coded by .* 0\.1, here is"):
        env.replay(record | {"build": record["build"] | {"version": "0.1"}})
    with pytest.raises(EncoderError, match="other bytes"):
        env.replay(record | {"qps": [41, *record["qps"][1:]]})


def test_files_are_replayed_from_their_path(tmp_path: Path) -> None:
    path = tmp_path / "clip.y4m"
    write_video(path, scene("talk", 6))
    env = SuperblockQpEnv(path, max_frames=4)
    play(env, random_maps(4))
    assert episodes.replay(env.episode_record()) == b"".join(env._packets)


def test_only_complete_streams_are_saved(env: SuperblockQpEnv, tmp_path: Path) -> None:
    early, last = tmp_path / "early.ivf", tmp_path / "last.ivf"
    with pytest.warns(UserWarning, match="no episode is complete"):
        env.save_bitstream_to_file(early, interrupt=True)
    play(env, random_maps())
    complete = env._packets
    env.reset()
    env.save_bitstream_to_file(last)  # a vector environment resets at once
    env.step(None)
    with pytest.warns(UserWarning, match="has 1 of 8 frames"):
        env.save_bitstream_to_file(early)
    assert not early.exists()
    env.save_bitstream_to_file(early, interrupt=True)
    assert early.read_bytes() == last.read_bytes()
    assert list(Clip.open(last)) == decode(complete)


def test_the_output_folder_gets_the_baseline(tmp_path: Path) -> None:
    env = SuperblockQpEnv(RECIPE, tmp_path / "logs")
    assert list(Clip.open(tmp_path / "logs" / "baseline_output.ivf")) == decode(env.baseline.packets)


# -- life and death --------------------------------------------------------------------------------------------------


def test_episodes_may_be_dropped_at_any_frame(env: SuperblockQpEnv) -> None:
    maps = random_maps()
    play(env, maps)
    whole = env._packets
    for frames in (0, 1, 5):
        env.reset()
        for action in maps[:frames]:
            env.step(action)
    play(env, maps)
    assert env._packets == whole


def test_no_thread_outlives_close_or_the_environment() -> None:
    SuperblockQpEnv(RECIPE, encoder=settings("svtav1"))  # OpenCV's own threads stay
    before = thread_count()
    for finish in ("close", "drop", "end"):
        env = SuperblockQpEnv(RECIPE, encoder=settings("svtav1"))
        env.reset()
        env.step(None)
        if finish == "close":
            env.close()
            env.close()
        elif finish == "end":
            play(env, [None] * FRAMES)
        del env
        gc.collect()
        assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("encoder-")]
    assert threads_fall_to(before)


def test_a_closed_environment_opens_again(env: SuperblockQpEnv) -> None:
    env.reset()
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(None)
    play(env, random_maps())


def test_copies_start_anew_and_behave_the_same(env: SuperblockQpEnv) -> None:
    play(env, random_maps())
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        play(twin, random_maps())
        assert twin._packets == env._packets
        twin.close()


def test_a_twin_shares_the_prepared_clip_and_plays_episodes_of_its_own(env: SuperblockQpEnv) -> None:
    learned, maps = env.normalisation, random_maps()
    assert learned
    env.normalise_by(Normalisation(learned.mean + 1, 2 * learned.deviation))
    twin = env.twin()
    assert twin.prepared is env.prepared
    assert twin.normalisation is env.normalisation
    first, _ = env.reset(seed=1)
    env.step(maps[0])
    played = play(twin, maps)
    np.testing.assert_array_equal(first, twin.reset(seed=1)[0])
    np.testing.assert_array_equal(first, pickle.loads(pickle.dumps(twin)).reset(seed=1)[0])
    twin.close()
    assert [reward for reward, _ in played] == [reward for reward, _ in play(env, maps)]


def test_two_environments_take_turns_without_harm() -> None:
    maps = random_maps()
    pair = [SuperblockQpEnv(RECIPE, encoder=settings(backend)) for backend in BACKENDS]
    alone = []
    for env in pair:
        play(env, maps)
        alone.append(env._packets)
    for env in pair:
        env.reset()
    for action in maps:
        for env in pair:
            env.step(action)
    assert [env._packets for env in pair] == alone


def test_frames_differ_so_observations_do(env: SuperblockQpEnv) -> None:
    observation, _ = env.reset()
    seen = [observation, *(env.step(action)[0] for action in random_maps())]
    assert all(not np.array_equal(a, b) for a, b in pairwise(seen))
    assert not seen[-1].any()
