"""The fast SSIM against a slow twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.encode.codecs.block_ssim import block_ssim, picture_ssim
from tests.encode.makers import scene

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Plane = NDArray[np.uint8]


def slow_ssim(a: Plane, b: Plane) -> float:
    """The same measure in exact whole numbers, window by window, with one division at the end of each."""
    scores: list[float] = []
    for top in range(0, a.shape[0] - 7, 4):
        for left in range(0, a.shape[1] - 7, 4):
            x = [int(value) for value in a[top : top + 8, left : left + 8].ravel()]
            y = [int(value) for value in b[top : top + 8, left : left + 8].ravel()]
            cross = sum(x) * sum(y)
            squares = sum(x) ** 2 + sum(y) ** 2
            product = sum(p * q for p, q in zip(x, y, strict=True))
            energy = sum(p * p for p in x) + sum(q * q for q in y)
            above = (2 * cross + 26634) * (128 * product - 2 * cross + 239708)
            below = (squares + 26634) * (64 * energy - squares + 239708)
            scores.append(above / below)
    return sum(scores) / len(scores) if scores else 1.0


@st.composite
def planes(draw: st.DrawFn) -> tuple[Plane, Plane]:
    height, width = draw(st.integers(8, 24)), draw(st.integers(8, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([1, 8, 128, 256]))
    first = rng.integers(0, 256, (height, width), np.uint8)
    second = np.clip(first + rng.integers(-spread, spread + 1, first.shape), 0, 255).astype(np.uint8)
    return first, second


@settings(deadline=None)
@given(planes())
def test_the_fast_measure_is_the_slow_one(pair: tuple[Plane, Plane]) -> None:
    assert block_ssim(*pair) == pytest.approx(slow_ssim(*pair), rel=1e-12, abs=1e-14)


@settings(deadline=None)
@given(planes())
def test_it_is_symmetric_at_most_one_and_one_for_equal_planes(pair: tuple[Plane, Plane]) -> None:
    first, second = pair
    assert block_ssim(first, second) == block_ssim(second, first)
    assert block_ssim(first, second) <= 1
    assert block_ssim(first, first) == 1


def test_views_with_strides_are_measured_like_copies() -> None:
    rng = np.random.default_rng(0)
    wide: Any = rng.integers(0, 256, (2, 40, 64), np.uint8)
    first, second = wide[0][:, :33], wide[1][:, :33]
    assert block_ssim(first, second) == block_ssim(first.copy(), second.copy())


def test_black_and_white_are_as_far_apart_as_can_be() -> None:
    black, white = np.zeros((16, 16), np.uint8), np.full((16, 16), 255, np.uint8)
    assert 0 < block_ssim(black, white) < 1e-3


def test_planes_smaller_than_a_window_say_nothing() -> None:
    assert block_ssim(np.zeros((4, 4), np.uint8), np.full((4, 4), 255, np.uint8)) == 1


def test_pictures_that_end_inside_a_block_are_filled_by_their_edge() -> None:
    small, large = (list(scene("street", 2, size)) for size in ((66, 50), (72, 56)))
    score = picture_ssim(small[0].planes, small[1].planes)
    padded = [
        [
            np.pad(plane, ((0, rows), (0, columns)), mode="edge")
            for plane, rows, columns in zip(f.planes, (6, 3, 3), (6, 3, 3), strict=True)
        ]
        for f in small
    ]
    assert score == tuple(block_ssim(a, b) for a, b in zip(*padded, strict=True))
    assert picture_ssim(large[0].planes, large[1].planes) == tuple(
        block_ssim(a, b) for a, b in zip(large[0].planes, large[1].planes, strict=True)
    )
