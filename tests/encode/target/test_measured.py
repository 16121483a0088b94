"""Scores of some frames, encodes that are cached, and probes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.content.quality import vmaf, vmaf_at
from reelrl.content.xpsnr import xpsnr
from reelrl.encode.target import measured as measuring
from reelrl.encode.target.lessons import SETTINGS, probe_point, whole_point
from reelrl.encode.target.measured import measured, thirds
from reelrl.encode.target.probe import FRAMES, cost, frames_to_check, scored, windows
from reelrl.encode.target.scene_features import NAMES, clip_pairs, scene_features
from reelrl.encode.target.scores import METRICS, frame_scores, pooled
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.content.clip import Clip

pytestmark = pytest.mark.slow

SIZE = (192, 128)


def scene(style: str = "street", frames: int = 20) -> Clip:
    return generated_clip(style, size=SIZE, frames=frames, seed=1).load()


def noisy(frames: Sequence[Frame], strength: int) -> list[Frame]:
    rng = np.random.default_rng(0)
    return [
        Frame(
            np.clip(frame.data + rng.integers(-strength, strength + 1, frame.data.shape), 0, 255).astype(np.uint8),
            frame.width,
            frame.height,
        )
        for frame in frames
    ]


def test_vmaf_of_some_frames_is_that_of_all() -> None:
    frames = list(scene(frames=9))
    worse = noisy(frames, 12)
    everything = vmaf(frames, worse)
    assert vmaf_at((2, 5, 7), frames, worse) == pytest.approx([everything[n] for n in (2, 5, 7)], abs=1e-5)
    for number in (0, 8):
        with pytest.raises(ConfigError, match=f"frame {number} of 9 has no neighbour on both sides"):
            vmaf_at((number,), frames, worse)


def test_xpsnr_falls_by_what_noise_adds() -> None:
    frames = list(scene(frames=5))
    light, heavy = (np.mean(xpsnr(frames, noisy(frames, strength))) for strength in (3, 12))
    assert 6 < light - heavy < 14  # four times the noise: 12 dB of plain PSNR
    assert xpsnr(frames, frames) == [100.0] * 5
    with pytest.raises(ConfigError, match="no frames to compare"):
        xpsnr([], [])


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_prefers_the_better_picture(metric: str) -> None:
    frames = list(scene(frames=7))
    good, bad = (frame_scores(metric, (1, 3, 5), frames, noisy(frames, strength)) for strength in (4, 30))
    assert good.shape == bad.shape == (3,)
    assert (good > bad).all()


def test_poolings_weigh_bad_frames_more_and_more() -> None:
    scores = np.array([95.0] * 90 + [60.0] * 8 + [20.0] * 2)
    mean, harmonic, p5, p1 = (pooled(scores, pool) for pool in ("mean", "harmonic", "p5", "p1"))
    assert mean > harmonic > p5 > p1
    assert (p5, p1) == (60.0, 20.0)


def test_an_encode_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = scene()
    first = measured([clip], replace(SETTINGS, preset=13), 40, thirds(20), ("psnr",))
    monkeypatch.setattr(measuring, "encode_packets", None)
    again = measured([clip], replace(SETTINGS, preset=13), 40, thirds(20), ("psnr",))
    assert np.array_equal(first.psnr, again.psnr)
    assert again.size_bytes == first.size_bytes > 0
    assert len(first.frame_bytes) == 20
    with pytest.raises(TypeError):  # another metric was not scored: it is encoded again
        measured([clip], replace(SETTINGS, preset=13), 40, thirds(20), ("psnr", "ssim"))


def test_quarter_steps_of_crf_lie_between_whole_ones() -> None:
    clip = scene("noise")
    sizes = [
        measured([clip], replace(SETTINGS, preset=13), crf, thirds(20), ()).size_bytes for crf in (40, 40.25, 40.5, 41)
    ]
    assert len(set(sizes)) == 4
    assert sizes[0] > max(sizes[1:3])
    assert min(sizes[1:3]) > sizes[3]


def test_a_probe_is_a_part_of_the_scene_and_says_about_what_the_whole_says() -> None:
    clip = scene(frames=30)
    stretches = [clip.window(first, count).load() for first, count in windows(30)]
    assert [each.frame_count for each in stretches] == [FRAMES, FRAMES]
    settings = replace(SETTINGS, preset=10).for_clip(clip)
    probed, whole = probe_point(stretches, settings, 40, ("psnr",)), whole_point(clip, settings, 40, ("psnr",))
    assert abs(probed.figures["psnr.mean"] - whole.figures["psnr.mean"]) < 1.5
    assert probed.encode_cpu_s > 0 < probed.score_cpu_s["psnr"]


def test_windows_lie_within_the_scene_and_grow_with_it() -> None:
    for frames in (1, 2, 5, 17, 18, 48, 300, 600):
        found = windows(frames)
        assert all(first >= 0 and first + count <= frames for first, count in found)
        assert len(found) == (1 if frames <= 2 * FRAMES else max(2, round(frames / 120)))
    # Every frame that is scored has its neighbours in the same window.
    assert [number % FRAMES for number in scored([FRAMES, FRAMES])] == [2, 5, 2, 5]
    assert scored([3]) == (1,)
    assert scored([1]) == ()


def test_frames_that_are_checked_lie_in_the_middle_of_the_layers() -> None:
    assert frames_to_check(48) == (2, 10, 14, 22, 26, 34, 38, 46)
    for frames in range(1, 900):
        numbers = frames_to_check(frames)
        assert all(0 < n < frames - 1 for n in numbers)
        assert bool(numbers) == (frames > 2)
        assert frames < 12 or all(n % 4 == 2 for n in numbers)
        assert len(numbers) <= 24


def test_a_probe_of_a_long_scene_or_a_slow_preset_takes_a_smaller_share() -> None:
    assert cost(48, 8) > cost(300, 8) > cost(300, 4)
    assert cost(48, 12) == cost(48, 8)


def test_features_tell_scenes_apart() -> None:
    table = {style: scene_features(clip_pairs(scene(style)), 30.0) for style in ("talk", "noise")}
    assert all(np.isfinite(each).all() and each.shape == (len(NAMES),) for each in table.values())
    change = NAMES.index("change")
    assert table["noise"][change] > table["talk"][change] + 1
    assert np.isfinite(scene_features(clip_pairs(scene(frames=1)), 30.0)).all()
    deep = [(before.at_depth(10), after.at_depth(10)) for before, after in clip_pairs(scene("talk"))]
    assert scene_features(deep, 30.0) == pytest.approx(table["talk"])
