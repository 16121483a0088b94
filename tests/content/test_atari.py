from __future__ import annotations

import sys

import numpy as np
import pytest

from reelrl.content.atari import GAMES, _screen_size, atari_clip
from reelrl.content.colour import frame_from_rgb
from reelrl.errors import MissingExtra


@pytest.mark.parametrize("game", GAMES)
def test_listed_sizes_are_those_of_the_console(game: str) -> None:
    assert _screen_size(game) == GAMES[game]


@pytest.mark.slow
def test_seeds_play_differently_and_each_plays_the_same() -> None:
    hashes = [atari_clip("Breakout", frames=60, seed=seed).content_hash for seed in (1, 2, 1)]
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_lower_rate_leaves_frames_out() -> None:
    full, half = atari_clip("Assault", frames=20), atari_clip("Assault", frames=10, fps=30)
    assert list(half) == list(full)[::2]


def test_scaling_repeats_pixels() -> None:
    small, large = (next(iter(atari_clip("Pacman", frames=1, scale=scale))) for scale in (1, 3))
    assert np.array_equal(large.y[1::3, 1::3], small.y)
    assert (large.width, large.height) == (480, 750)


def test_without_the_emulator_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    clip = atari_clip("Breakout")
    with pytest.raises(MissingExtra, match=r"pip install 'reelrl\[atari\]'"):
        next(iter(clip))


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ((0, 0, 0), (16, 128, 128)),
        ((255, 255, 255), (235, 128, 128)),
        ((255, 0, 0), (82, 90, 240)),
        ((0, 255, 0), (145, 54, 34)),
        ((0, 0, 255), (41, 240, 110)),
    ],
)
def test_colours_are_those_of_bt601(colour: tuple[int, int, int], expected: tuple[int, int, int]) -> None:
    frame = frame_from_rgb(np.full((4, 6, 3), colour, np.uint8))
    assert [int(plane[0, 0]) for plane in frame.planes] == pytest.approx(expected, abs=1)
    assert [np.ptp(plane) for plane in frame.planes] == [0, 0, 0]


def test_conversion_is_within_one_step_of_the_formula() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    red, green, blue = (picture[..., channel].astype(float) for channel in range(3))
    luma = 16 + (65.481 * red + 128.553 * green + 24.966 * blue) / 255
    frame = frame_from_rgb(picture)
    assert np.abs(frame.y - luma).max() <= 1
    mean = picture.reshape(32, 2, 32, 2, 3).mean(axis=(1, 3))
    blue_difference = 128 + (-37.797 * mean[..., 0] - 74.203 * mean[..., 1] + 112 * mean[..., 2]) / 255
    assert np.abs(frame.u - blue_difference).max() <= 1
