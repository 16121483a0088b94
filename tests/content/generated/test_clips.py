from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.generated.canvas import SINE, TURN, noise, pick, sine
from reelrl.content.generated.clips import STYLES, generated_clip
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from reelrl.content.clip import Clip

# Each is the hash of 64x48, 12 frames, seed 3. A change is a change of everybody's data: say so in CHANGELOG.
HASHES = {
    "street": "3641257923d41fe995fd8332f44d9bba115ecc73dc3253d30f4243182114ea24",
    "pan": "efa9b6de9c0fcdd9bb0a53b16b2a6103a83a03a557535427954889823f6fbcca",
    "water": "93b2816593e5d61d0ffa7fa509f6e48f6a392fd61c9a7c9ff170d092f720b5e4",
    "talk": "9e1bfd20b4a90d0245cb5a6ada282f77d3ade7dde99e1537d77c79237ddd7559",
    "screen": "eeeb573641c79b517ab0484cccee97f4379f24549c369539f7fdd77e0f81673d",
    "noise": "0d74217f6f0332e4d752762c37baf2d670ff9e543da4205f1116823f5a7d637d",
    "cuts": "678b5e11f38cfe5905cc04b9357e7ed0caeb61cca88cce53d76cce2ab7c26094",
}


def small(style: str, *, frames: int = 12, seed: int = 3, size: tuple[int, int] = (64, 48)) -> Clip:
    return generated_clip(style, size=size, frames=frames, seed=seed)


@pytest.mark.parametrize("style", STYLES)
def test_a_recipe_gives_the_same_bytes_for_ever(style: str) -> None:
    assert small(style).content_hash == HASHES[style]


@pytest.mark.slow
def test_another_process_draws_the_same() -> None:
    program = (
        "from reelrl.content.generated.clips import generated_clip as g;"
        "print(g('cuts', size=(64, 48), frames=12, seed=3).content_hash)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7", "NUMBA_CPU_NAME": "generic"}
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert out.stdout.strip() == HASHES["cuts"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [(32, 32), (176, 32), (34, 130), (160, 210)])
def test_every_style_draws_every_size_in_video_range(style: str, size: tuple[int, int]) -> None:
    for frame in small(style, size=size, frames=3):
        assert (frame.width, frame.height) == size
        assert frame.y.min() >= 16
        assert frame.y.max() <= 235
        assert frame.y.std() > 4


@pytest.mark.parametrize("style", STYLES)
def test_frames_do_not_depend_on_where_reading_begins(style: str) -> None:
    clip = small(style, frames=40)
    assert list(clip.frames(33)) == list(clip)[33:]


@pytest.mark.parametrize("style", STYLES)
def test_seeds_differ(style: str) -> None:
    assert small(style, seed=4).content_hash != small(style, seed=5).content_hash


def changes(style: str, frames: int = 150) -> np.ndarray:
    """Mean absolute difference of luma between neighbours."""
    planes = [frame.y.astype(np.int16) for frame in small(style, frames=frames, size=(176, 144))]
    return np.array([np.abs(b - a).mean() for a, b in pairwise(planes)])


def test_a_screen_mostly_stands_still() -> None:
    moved = changes("screen")
    assert np.median(moved) < 0.2
    assert moved.max() > 1


def test_cuts_jump_and_other_styles_do_not() -> None:
    cuts = changes("cuts")
    assert np.count_nonzero(cuts > 25) >= 4
    for style in ("street", "pan", "water", "talk", "noise"):
        assert changes(style, 60).max() < 25


def test_noise_changes_where_nothing_moves() -> None:
    first, second = (frame.y.astype(np.int16) for frame in small("noise", frames=2, size=(176, 144)))
    grain = (second - first)[:20]  # night sky
    assert 5 < grain.std() < 20


def test_a_face_moves_and_the_shelf_does_not() -> None:
    frames = [frame.y.astype(np.int16) for frame in small("talk", frames=30, size=(176, 144))]
    moved = np.abs(frames[29] - frames[0])
    assert moved[:, 60:116].mean() > 3 * moved[:, :30].mean()


@given(angle=st.integers(-5000, 5000))
def test_the_whole_number_sine_is_close(angle: int) -> None:
    assert sine(angle, 4096) / 4096 == pytest.approx(np.sin(2 * np.pi * angle / TURN), abs=0.003)
    assert SINE[0] == 0


@given(seed=st.integers(0, 2**31 - 1), label=st.integers(0, 10**6), low=st.integers(-99, 99), span=st.integers(0, 99))
def test_picks_stay_in_range(seed: int, label: int, low: int, span: int) -> None:
    assert low <= pick(seed, label, low, low + span) <= low + span


def test_textures_repeat_without_a_seam() -> None:
    texture = noise(96, 128, 32, 3, 5).astype(np.int16)
    inside = np.abs(np.diff(texture, axis=1)).max()
    assert np.abs(texture[:, 0] - texture[:, -1]).max() <= inside


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"style": "stret"}, "did you mean 'street'"),
        ({"size": (16, 16)}, "at least 32x32"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**31}, "seed is 2147483648"),
    ],
)
def test_recipes_that_cannot_be_drawn_are_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        generated_clip(**({"style": "street"} | change))  # type: ignore[arg-type]


def test_odd_sizes_and_no_frames_are_refused() -> None:
    with pytest.raises(ContentError, match="33x32"):
        generated_clip("street", size=(33, 32))
    with pytest.raises(ContentError, match="no frames"):
        generated_clip("street", frames=0)
