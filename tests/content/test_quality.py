from __future__ import annotations

import math
import sys
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reelrl.content import quality
from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.errors import ConfigError, ContentError, MissingExtra
from tests.content.makers import noise_frames

if TYPE_CHECKING:
    from pathlib import Path

planes = hnp.arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40)))


@given(a=planes, seed=st.integers(0, 99))
def test_squared_errors_are_exact(a: np.ndarray, seed: int) -> None:
    b = np.random.default_rng(seed).integers(0, 256, a.shape, np.uint8)
    assert quality.sse(a, b) == int(((a.astype(int) - b.astype(int)) ** 2).sum())


def test_squared_errors_are_exact_on_views_and_large_planes() -> None:
    wide = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)
    assert quality.sse(wide[:, 3:20], wide[:, 4:21]) == int(
        ((wide[:, 3:20].astype(int) - wide[:, 4:21].astype(int)) ** 2).sum()
    )
    black = np.zeros((2160, 3840), np.uint8)
    assert quality.sse(black, black + 255) == 255**2 * 2160 * 3840


@given(error=st.integers(1, 10**12), samples=st.integers(1, 10**8))
def test_psnr_is_its_definition_below_the_cap(error: int, samples: int) -> None:
    plain = 10 * math.log10(255**2 / (error / samples))
    assert quality.psnr_from_sse(error, samples) == pytest.approx(min(100.0, plain))
    assert quality.psnr_from_sse(error, samples, cap_db=50) <= 50


def test_identical_frames_are_finite() -> None:
    frame = noise_frames(16, 16, 1)[0]
    assert quality.psnr(frame, frame) == (100, 100, 100)
    assert quality.ssim(*(noise_frames(32, 32, 1) * 2)) == pytest.approx((1, 1, 1))


def test_planes_are_measured_apart() -> None:
    a, b = Frame(np.zeros(96, np.uint8), 8, 8), Frame(np.zeros(96, np.uint8), 8, 8)
    b.u[...] = 1
    b.v[0, 0] = 255
    assert quality.psnr(a, b) == pytest.approx((100, 20 * math.log10(255), 10 * math.log10(16)))


@given(errors=st.lists(st.integers(1, 10**7), min_size=1, max_size=30))
def test_the_mean_of_psnrs_is_never_below_the_psnr_of_the_mean(errors: list[int]) -> None:
    together = quality.psnr_of_mean_mse(errors, 10_000)
    apart = quality.mean_of_frame_psnr(errors, 10_000)
    assert together <= apart + 1e-9
    assert quality.psnr_of_mean_mse(errors[:1] * 3, 10_000) == pytest.approx(
        quality.mean_of_frame_psnr(errors[:1], 10_000)
    )


def slow_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """The definition, window by window."""
    axis = np.exp(-(np.arange(-5, 6) ** 2) / 4.5)
    weights = np.outer(axis, axis) / axis.sum() ** 2
    scores = []
    for top in range(a.shape[0] - 10):
        for left in range(a.shape[1] - 10):
            x = a[top : top + 11, left : left + 11].astype(float)
            y = b[top : top + 11, left : left + 11].astype(float)
            mx, my = (weights * x).sum(), (weights * y).sum()
            vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
            covariance = (weights * (x - mx) * (y - my)).sum()
            c1, c2 = 6.5025, 58.5225
            scores.append((2 * mx * my + c1) * (2 * covariance + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    return float(np.mean(scores))


@given(
    shape=st.tuples(st.integers(11, 24), st.integers(11, 24)),
    seed=st.integers(0, 999),
    strength=st.sampled_from([1, 8, 60, 255]),
)
@settings(deadline=None, max_examples=25)
def test_ssim_equals_its_definition(shape: tuple[int, int], seed: int, strength: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, shape, np.uint8)
    b = np.clip(a.astype(int) + rng.integers(-strength, strength + 1, shape), 0, 255).astype(np.uint8)
    assert quality.plane_ssim(a, b) == pytest.approx(slow_ssim(a, b), abs=1e-9)


def test_pictures_of_different_or_tiny_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="8x8 and 16x8"):
        quality.psnr(Frame.empty(8, 8), Frame.empty(16, 8))
    with pytest.raises(ConfigError, match="SSIM needs at least 11x11"):
        quality.plane_ssim(np.zeros((10, 30), np.uint8), np.zeros((10, 30), np.uint8))
    with pytest.raises(ConfigError, match="no frames"):
        quality.psnr_of_mean_mse([], 10)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test would be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def damaged(frames: list[Frame], strength: int) -> list[Frame]:
    rng = np.random.default_rng(0)
    fuzz = (rng.integers(-strength, strength + 1, frame.data.size) for frame in frames)
    return [
        Frame(np.clip(frame.data + noise, 16, 235).astype(np.uint8), frame.width, frame.height)
        for frame, noise in zip(frames, fuzz, strict=True)
    ]


def test_vmaf_falls_with_damage_and_leaves_no_files(temporary: Path) -> None:
    frames = list(generated_clip("street", size=(176, 144), frames=5))
    same, light, heavy = (quality.vmaf(frames, damaged(frames, strength)) for strength in (0, 10, 60))
    assert len(same) == len(light) == len(heavy) == 5
    assert min(same) > 95
    assert np.mean(same) >= np.mean(light) > np.mean(heavy) + 10
    assert list(temporary.iterdir()) == []


def test_vmaf_has_a_deadline(temporary: Path) -> None:
    frames = noise_frames(640, 360, 40)
    with pytest.raises(ContentError, match=r"longer than 0.05 s; raise deadline_s"):
        quality.vmaf(frames, frames, deadline_s=0.05)
    assert list(temporary.iterdir()) == []


def test_vmaf_refuses_what_does_not_match(temporary: Path) -> None:
    frames = noise_frames(64, 64, 3)
    with pytest.raises(ConfigError, match="differ in length"):
        quality.vmaf(frames, frames[:2])
    with pytest.raises(ConfigError, match="differ in size: 64x64 and 32x32"):
        quality.vmaf(frames, [*frames[:2], Frame.empty(32, 32)])
    with pytest.raises(ConfigError, match="no frames"):
        quality.vmaf([], [])
    assert list(temporary.iterdir()) == []


def test_without_a_fitting_ffmpeg_vmaf_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/true")
    with pytest.raises(ContentError, match="built without libvmaf"):
        quality.vmaf_program()
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'reelrl\[vmaf\]'"):
        quality.vmaf([], [])


def test_a_dying_ffmpeg_has_its_last_words_shown(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = temporary / "ffmpeg"
    program.write_text("#!/bin/sh\necho model file is broken >&2; exit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(quality, "vmaf_program", lambda: str(program))
    with pytest.raises(ContentError, match=r"(?s)status 3 .*model file is broken"):
        quality.vmaf(noise_frames(64, 64, 3), noise_frames(64, 64, 3))
