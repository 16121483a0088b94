"""Rungs near the convex hull, on curves that are known and on a real clip."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.content.quality import psnr
from reelrl.content.scaling import scaled, scaled_clip
from reelrl.encode.target.ladder import SizeCurve, choose_rungs, size_curves, sizes_of, targets_between
from reelrl.encode.target.model import CRFS
from reelrl.encode.target.model_file import load_models
from reelrl.errors import ConfigError

pytestmark = pytest.mark.slow


def curve(share: float, ceiling: float) -> SizeCurve:
    """A size whose rate grows with its pixels and whose quality ends at a ceiling."""
    quality = ceiling - 0.5 * share * np.exp((CRFS - 8) / 14)
    return SizeCurve(int(640 * share), int(360 * share), quality, 4000 * share**1.5 * np.exp(-(CRFS - 8) / 10))


CURVES = [curve(1.0, 98.0), curve(0.5, 85.0), curve(0.25, 66.0)]


def test_every_rung_meets_its_target_at_the_lowest_rate_of_all_sizes() -> None:
    targets = targets_between(60, 95, 5)
    rungs = choose_rungs(CURVES, targets)
    assert len(rungs) == 5
    for rung, target in zip(rungs, targets, strict=True):
        assert rung.expected >= target
        cheapest = min(
            float(each.kbps[each.quality >= target].min()) for each in CURVES if each.quality.max() >= target
        )
        assert rung.kbps == pytest.approx(cheapest)
    heights = [rung.height for rung in rungs]
    assert heights == sorted(heights)
    assert len(set(heights)) > 1
    assert (np.diff([rung.kbps for rung in rungs]) > 0).all()


def test_what_nothing_reaches_is_the_best_there_is_and_stands_once() -> None:
    rungs = choose_rungs(CURVES, [60, 97.9, 99, 99.4])
    assert len(rungs) == 2
    assert rungs[-1].crf == CRFS[0]
    assert rungs[-1].expected == CURVES[0].quality.max()


@pytest.mark.parametrize(
    "size", [(1920, 1080), (1280, 720), (640, 480), (640, 360), (432, 288), (854, 480), (160, 120)]
)
def test_sizes_are_even_and_of_the_shape_of_the_source(size: tuple[int, int]) -> None:
    sizes = sizes_of(*size)
    assert sizes[0] == size
    assert len(set(sizes)) == len(sizes)
    for width, height in sizes:
        assert width % 2 == height % 2 == 0
        assert width * size[1] == height * size[0]
    assert (len(sizes) == 1) == (size in ((854, 480), (160, 120)))  # of that shape nothing smaller is even; too small
    assert sizes_of(1920, 1080) == [(1920, 1080), (1280, 720), (960, 540), (640, 360)]


@pytest.mark.parametrize(("low", "high", "rungs"), [(60, 95, 1), (95, 60, 5), (80, 80, 3)])
def test_a_range_that_gives_no_ladder_is_refused(low: float, high: float, rungs: int) -> None:
    with pytest.raises(ConfigError, match="rungs from"):
        targets_between(low, high, rungs)


@pytest.mark.parametrize("depth", [8, 10])
def test_a_picture_that_is_enlarged_again_lost_detail_and_nothing_else(depth: int) -> None:
    frame = next(iter(generated_clip("talk", size=(320, 192), frames=1).at_depth(depth)))
    small = scaled(frame, 160, 96)
    again = scaled(small, 320, 192)
    assert (small.width, small.height, small.depth) == (160, 96, depth)
    assert abs(float(small.y.mean()) - float(frame.y.mean())) < 1 << (depth - 8)
    assert psnr(frame, again).y > 25
    assert int(again.data.max()) < 1 << depth


def test_a_scaled_clip_is_read_from_anywhere() -> None:
    clip = scaled_clip(generated_clip("street", size=(128, 96), frames=6), 64, 48)
    assert (clip.width, clip.height, clip.frame_count) == (64, 48, 6)
    assert np.array_equal(next(clip.frames(4)).data, list(clip)[4].data)
    assert isinstance(clip.load(), Clip)


@pytest.mark.long
def test_a_smaller_size_takes_fewer_bits_and_ends_at_a_lower_quality() -> None:
    clip = generated_clip("street", size=(432, 288), frames=16, seed=2)
    models, _ = load_models()
    encodes: list[int] = []
    curves = size_curves(clip, models, 8, lambda: encodes.append(1))
    assert [(each.width, each.height) for each in curves] == [(432, 288), (288, 192), (216, 144)]
    assert len(encodes) == 9
    at = int(np.searchsorted(CRFS, 35.0))
    for larger, smaller in itertools.pairwise(curves):
        assert smaller.quality[at] < larger.quality[at]
        assert smaller.kbps[at] < larger.kbps[at]
