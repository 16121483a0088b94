from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import cv2
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.content.clip import Clip, concatenate
from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.encode import features as f
from reelrl.errors import ConfigError, ContentError
from tests.content.makers import noise_frames, smooth_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reelrl.content.frame import Plane

pytestmark = pytest.mark.slow

sizes = st.tuples(st.integers(1, 75), st.integers(1, 75)).map(lambda halves: (2 * halves[0], 2 * halves[1]))


def blocks(width: int, height: int, size: int = 64) -> Iterator[tuple[slice, slice]]:
    for top in range(0, height, size):
        for left in range(0, width, size):
            yield slice(top, min(top + size, height)), slice(left, min(left + size, width))


def slow_texture(frame: Frame) -> np.ndarray:
    """Mean, variance, level and gradient as their names say them."""
    y = frame.y.astype(float)
    u, v = (plane.astype(float).repeat(2, axis=0).repeat(2, axis=1) for plane in (frame.u, frame.v))
    rows = []
    for block in blocks(frame.width, frame.height):
        gradient = np.abs(np.diff(y[block], axis=1)).mean() + np.abs(np.diff(y[block], axis=0)).mean()
        rows.append([y[block].mean(), y[block].var(), np.abs([y[block], u[block], v[block]]).mean(), gradient])
    return np.array(rows).T


def slow_flow(luma: Plane, previous: Plane) -> np.ndarray:
    """Where each half-resolution pixel was, by an object that has seen nothing before; in luma pixels."""
    half = [cv2.resize(plane, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for plane in (luma, previous)]
    height, width = half[0].shape
    pad = ((0, max(0, 32 - height)), (0, max(0, 96 - width)))
    finder = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
    return 2.0 * finder.calc(*(np.pad(plane, pad, mode="edge") for plane in half), None)[:height, :width]  # type: ignore[call-overload, no-any-return]


def slow_change(luma: Plane, previous: Plane) -> np.ndarray:
    """Frame difference, motion and motion residual, pixel by pixel."""
    height, width = luma.shape
    now, before = luma.astype(float), previous.astype(float)
    flow = slow_flow(luma, previous)
    still, moved = np.abs(now - before), np.empty_like(now)
    for rows, columns in blocks(width, height, 8):
        tall, wide = rows.stop - rows.start, columns.stop - columns.start
        back = flow[rows.start // 2 + tall // 4, columns.start // 2 + wide // 4]
        top = int(np.clip(rows.start + np.round(back[1]), 0, height - tall))
        left = int(np.clip(columns.start + np.round(back[0]), 0, width - wide))
        there = np.abs(now[rows, columns] - before[top : top + tall, left : left + wide])
        moved[rows, columns] = min(there, still[rows, columns], key=np.sum)
    half = list(blocks(width // 2, height // 2, 32))
    return np.array(
        [
            [still[block].mean() for block in blocks(width, height)],
            [-flow[block][..., 0].mean() for block in half],
            [-flow[block][..., 1].mean() for block in half],
            [moved[block].mean() for block in blocks(width, height)],
        ]
    )


def blurred_texture(height: int, width: int, seed: int = 0) -> Plane:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 3)
    texture: Plane = np.clip((smooth - smooth.mean()) * 8 + 128, 0, 255).astype(np.uint8)
    return texture


def panning_frames(dx: int, dy: int, count: int = 6, size: tuple[int, int] = (352, 288)) -> list[Frame]:
    """A large texture seen through a window; its content moves by (dx, dy) pixels per frame."""
    width, height = size
    texture, frames = blurred_texture(height + 400, width + 400), []
    for number in range(count):
        frame = Frame.empty(width, height)
        top, left = 200 - dy * number, 200 - dx * number
        frame.y[...] = texture[top : top + height, left : left + width]
        frame.u[...], frame.v[...] = 128, 128
        frames.append(frame)
    return frames


def features_of(frames: list[Frame]) -> np.ndarray:
    return np.stack(list(f.frame_features(frames)))


@given(size=sizes, seed=st.integers(0, 999), low=st.integers(0, 255))
@settings(deadline=None, max_examples=40)
def test_texture_equals_its_definition(size: tuple[int, int], seed: int, low: int) -> None:
    frame = noise_frames(*size, 1, seed)[0]
    np.maximum(frame.data, low, out=frame.data)
    got = f.FeatureExtractor(*size).extract(frame)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[: f.FRAME_DIFFERENCE], slow_texture(frame), rtol=1e-6, atol=1e-6)
    assert not got[f.FRAME_DIFFERENCE :].any()


@given(size=sizes, seed=st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_change_equals_its_definition(size: tuple[int, int], seed: int) -> None:
    frames = noise_frames(*size, 3, seed)
    for now, previous, got in zip(frames[1:], frames, features_of(frames)[1:], strict=False):
        np.testing.assert_allclose(got[f.FRAME_DIFFERENCE :], slow_change(now.y, previous.y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("style", ["street", "pan", "screen"])
@pytest.mark.parametrize("size", [(352, 288), (100, 72), (176, 144), (320, 136)])
def test_change_equals_its_definition_on_scenes(style: str, size: tuple[int, int]) -> None:
    frames = list(generated_clip(style, size=size, frames=4))
    for now, previous, got in zip(frames[1:], frames, features_of(frames)[1:], strict=False):
        np.testing.assert_allclose(got[f.FRAME_DIFFERENCE :], slow_change(now.y, previous.y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("move", [(4, 0), (-4, 0), (0, 4), (0, -6), (2, -3), (12, 8), (1, 0)])
def test_motion_is_how_far_content_moved(move: tuple[int, int]) -> None:
    """Right and down count positive; residuals fall to almost nothing where the shift is known."""
    got = features_of(panning_frames(*move))[1:]
    assert np.median(got[:, f.MOTION_X]) == pytest.approx(move[0], abs=0.3)
    assert np.median(got[:, f.MOTION_Y]) == pytest.approx(move[1], abs=0.3)
    within = np.abs(got[:, [f.MOTION_X, f.MOTION_Y]] - np.reshape(move, (2, 1))) < 1
    assert within.mean() > 0.9
    assert got[:, f.MOTION_RESIDUAL].mean() < 0.3 * got[:, f.FRAME_DIFFERENCE].mean()


def test_motion_belongs_to_where_the_content_is_now() -> None:
    still = panning_frames(0, 0, 2, (512, 128))
    patch = blurred_texture(64, 64, seed=1)
    for number, frame in enumerate(still):
        left = 256 - 8 + 8 * number
        frame.y[64:128, left : left + 64] = patch
    motion = features_of(still)[1, f.MOTION_X].reshape(2, 8)
    assert motion[1, 4] == motion.max() > 4
    assert np.abs(motion[:, [0, 1, 6, 7]]).max() < 0.5


@given(size=sizes, level=st.integers(0, 255), seed=st.integers(0, 99), flat=st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_still_picture_neither_moves_nor_changes(size: tuple[int, int], level: int, seed: int, flat: bool) -> None:
    frame = noise_frames(*size, 1, seed)[0]
    if flat:
        frame.data[...] = level
    got = features_of([frame] * 3)
    assert not got[:, f.FRAME_DIFFERENCE :].any()
    np.testing.assert_array_equal(got[0], got[2])


@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 400)).map(lambda sides: (2 * sides[0], 2 * sides[1])),
    lying=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_tiny_and_thin_pictures_give_finite_numbers(size: tuple[int, int], lying: bool, seed: int) -> None:
    """OpenCV crashes on some of these sizes when it is not handed a larger picture."""
    size = size[::-1] if lying else size
    got = features_of(noise_frames(*size, 3, seed))
    assert np.isfinite(got).all()
    assert (got[:, f.MOTION_RESIDUAL] <= got[:, f.FRAME_DIFFERENCE]).all()


def test_results_depend_on_neither_history_nor_threads() -> None:
    frames = list(generated_clip("cuts", frames=30))
    expected = features_of(frames)
    before = cv2.getNumThreads()
    try:
        for threads in (1, 3, 8):
            cv2.setNumThreads(threads)
            np.testing.assert_array_equal(features_of(frames), expected)
    finally:
        cv2.setNumThreads(before)
    extractor = f.FeatureExtractor(352, 288)
    extractor.extract(frames[20])
    extractor.extract(frames[4])
    np.testing.assert_array_equal(extractor.extract(frames[5]), expected[5])


def test_extractors_in_many_threads_do_not_meet() -> None:
    clips = [list(generated_clip("street", frames=12, seed=seed)) for seed in range(4)]
    alone = [features_of(frames) for frames in clips]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(features_of, clips)), alone)


def test_reset_starts_a_stream() -> None:
    frames = noise_frames(96, 80, 2)
    extractor = f.FeatureExtractor(96, 80)
    first = extractor.extract(frames[0])
    extractor.extract(frames[1])
    extractor.reset()
    np.testing.assert_array_equal(extractor.extract(frames[0]), first)


def test_a_frame_may_be_overwritten_after_it_was_given() -> None:
    frames = noise_frames(128, 96, 2)
    expected = features_of([Frame(frame.data.copy(), 128, 96) for frame in frames])
    extractor = f.FeatureExtractor(128, 96)
    extractor.extract(frames[0])
    frames[0].data[...] = 0
    np.testing.assert_array_equal(extractor.extract(frames[1]), expected[1])


def test_read_only_frames_are_taken() -> None:
    frames = [Frame(np.frombuffer(frame.data.tobytes(), np.uint8), 128, 96) for frame in noise_frames(128, 96, 2)]
    np.testing.assert_array_equal(features_of(frames), features_of(noise_frames(128, 96, 2)))


def test_other_sizes_are_refused() -> None:
    extractor = f.FeatureExtractor(128, 96)
    with pytest.raises(ConfigError, match=r"frame is 64x64, these features are for 128x96"):
        extractor.extract(noise_frames(64, 64, 1)[0])
    with pytest.raises(ContentError, match="33x32"):
        f.FeatureExtractor(33, 32)


def test_scene_cuts_are_seen_and_only_they() -> None:
    shots = [generated_clip(style, frames=12, size=(320, 192)) for style in ("street", "screen", "pan", "noise")]
    clip = concatenate(shots)
    score = f.analyse(features_of(list(clip)), 320, 192).scene_cut
    assert np.flatnonzero(score > 0.7).tolist() == [12, 24, 36]
    assert np.delete(score, [12, 24, 36]).max() < 0.5
    assert ((score >= 0) & (score <= 1)).all()


def test_flat_pictures_fade_without_a_cut() -> None:
    levels = [Frame(np.full(96 * 64 * 3 // 2, level, np.uint8), 96, 64) for level in (16, 17, 18, 200, 200)]
    assert f.analyse(features_of(levels), 96, 64).scene_cut == pytest.approx([0, 0.25, 0.25, 1, 0])


@given(size=sizes, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_analysis_averages_over_pixels(size: tuple[int, int], seed: int) -> None:
    frames = noise_frames(*size, 2, seed)
    got = features_of(frames)
    moved = f.analyse(got, *size)
    assert moved.inter_energy.shape == (2,)
    swapped = got.copy()
    swapped[:, f.GRADIENT] = 2 * got[:, f.FRAME_DIFFERENCE]
    plain = np.abs(frames[1].y.astype(int) - frames[0].y).mean()
    assert f.analyse(swapped, *size).intra_energy == pytest.approx([0, plain], rel=1e-5)
    assert f.analyse(got[1], *size).motion == pytest.approx(moved.motion[1])


def test_a_pan_is_seen_in_the_analysis() -> None:
    moved = f.analyse(features_of(panning_frames(3, 4)), 352, 288)
    assert moved.motion[0] == 0
    assert moved.motion[1:] == pytest.approx(5, abs=0.5)
    assert moved.scene_cut.max() < 0.2
    assert (moved.inter_energy < moved.intra_energy).all()


def test_analysis_refuses_another_shape() -> None:
    with pytest.raises(ConfigError, match=r"shape \(8, 3\), 352x288 needs \[\.\.\., 8, 30\]"):
        f.analyse(np.zeros((8, 3), np.float32), 352, 288)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where features are kept in this test."""
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def test_a_clip_is_computed_once_and_equals_live(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = generated_clip("street", size=(100, 72), frames=6)
    live = features_of(list(clip))
    first = f.clip_features(clip)
    monkeypatch.setattr(f, "frame_features", lambda frames: pytest.fail("computed again"))
    again = f.clip_features(generated_clip("street", size=(100, 72), frames=6))
    assert first.shape == (6, len(f.FEATURES), clip.superblock_count)
    np.testing.assert_array_equal(first, live)
    np.testing.assert_array_equal(again, live)
    assert len(list(cache.iterdir())) == 1


def test_the_key_holds_content_size_and_versions(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f.clip_features(Clip.from_frames(smooth_frames(64, 32, 2), fps=30))
    f.clip_features(Clip.from_frames(smooth_frames(64, 32, 3), fps=30))
    same_bytes = [Frame(frame.data, 32, 64) for frame in smooth_frames(64, 32, 2)]
    f.clip_features(Clip.from_frames(same_bytes, fps=30))
    assert len(list(cache.iterdir())) == 3
    for owner, name, value in ((f, "VERSION", 2), (cv2, "__version__", "9.9"), (numba, "__version__", "9.9")):
        monkeypatch.setattr(owner, name, value)
        f.clip_features(Clip.from_frames(smooth_frames(64, 32, 2), fps=30))
    assert len(list(cache.iterdir())) == 6
