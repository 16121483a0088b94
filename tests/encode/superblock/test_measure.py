from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reelrl.encode import EncoderSettings, SuperblockQpEnv, encode_clip
from reelrl.encode.superblock import measure
from reelrl.encode.superblock.measure import LocalCurve, Measured, static
from reelrl.encode.superblock.measure import measure as measured
from reelrl.errors import ConfigError
from tests.encode.makers import SUPERBLOCKS, deep_scene, scene

AOM = EncoderSettings(backend="aom", qp=40)
ALL = tuple(name for name in measure.METRICS if name != "vmaf" and "text" not in name)  # those want extras


def point(size_bytes: int, quality: float) -> Measured:
    return Measured(size_bytes, size_bytes / 100, {"psnr_y": quality}, 0.0, 0.0, 0.0)


def test_figures_are_those_of_the_encode() -> None:
    clip = scene(frames=4)
    coded = encode_clip(clip, replace(AOM, ssim=True))
    found = measured(clip, AOM, metrics=ALL)
    assert (found.size_bytes, found.kbps) == (coded.size_bytes, coded.kbps)
    assert found.quality["psnr_y"] == coded.psnr_y
    assert found.quality["psnr_y_of_mean"] == coded.psnr_y_of_mean
    ssim = sum(packet.ssim[0] for packet in coded.packets if packet.ssim) / 4
    assert found.quality["ssim_db"] == pytest.approx(-10 * np.log10(1 - ssim))
    assert set(found.quality) == set(ALL)


def test_nothing_is_encoded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    clip, maps = scene(frames=3), static(np.array([-2, 0, 1, 3], np.int32), 3)
    first = measured(clip, AOM, maps, metrics=ALL)
    monkeypatch.setattr(measure, "encode_clip", lambda *_: pytest.fail("encoded again"))
    assert measured(clip, AOM, maps, metrics=ALL) == first
    assert measured(clip, replace(AOM, deadline_s=5), maps, metrics=ALL) == first


def test_what_changes_the_stream_is_encoded_anew() -> None:
    clip, up = scene(frames=3), np.array([3, 3, -3, -3], np.int32)
    sizes = [
        measured(clip, AOM, metrics=["psnr_y"]).size_bytes,
        measured(clip, AOM, static(up, 3), metrics=["psnr_y"]).size_bytes,
        measured(clip, AOM, [up, None, None], metrics=["psnr_y"]).size_bytes,
        measured(clip, replace(AOM, qp=36), metrics=["psnr_y"]).size_bytes,
        measured(scene(frames=3, seed=1), AOM, metrics=["psnr_y"]).size_bytes,
    ]
    assert len(set(sizes)) == len(sizes)


def test_a_zero_map_costs_nothing_on_aom() -> None:
    clip, zeros = scene(frames=3), [np.zeros(SUPERBLOCKS, np.int32)] * 3
    assert measured(clip, AOM, zeros).size_bytes == measured(clip, AOM).size_bytes


def test_how_much_was_sent_is_told() -> None:
    maps = [np.array([-2, 0, 0, 0], np.int32), None]
    found = measured(scene(frames=2), AOM, maps, metrics=["psnr_y"])
    assert (found.mapped, found.mean_offset) == (0.5, -0.25)


def test_a_static_map_of_zeros_is_none() -> None:
    assert static(np.zeros(4, np.int32), 2) == [None, None]


@pytest.mark.parametrize("scale", [0.8, 1.0, 1.3])
def test_a_local_curve_tells_how_many_bits_more_a_point_takes(scale: float) -> None:
    curve = LocalCurve.through("psnr_y", [point(round(1000 * 1.2**q), 30.0 + q) for q in range(7)])
    assert curve.percent(point(round(1000 * 1.2**3 * scale), 33.0)) == pytest.approx(100 * (scale - 1), abs=0.1)
    assert curve.roughness == pytest.approx(0, abs=0.1)


def test_without_maps_the_curve_is_met_to_its_roughness() -> None:
    clip = scene(frames=3)
    curve = LocalCurve.around(clip, AOM, ["psnr_y"])["psnr_y"]
    assert abs(curve.percent(measured(clip, AOM, metrics=["psnr_y"]))) < 4 * curve.roughness + 0.1


def test_the_mean_offset_is_that_of_the_maps() -> None:
    lower = [np.full(SUPERBLOCKS, -3, np.int32)] * 2
    assert measured(scene(frames=2), AOM, lower, metrics=["psnr_y"]).mean_offset == -3


@pytest.mark.parametrize(
    ("change", "match"),
    [({"metrics": ["psnr"]}, "did you mean 'psnr_y'"), ({"maps": [None]}, "1 maps for 2 frames")],
)
def test_wrong_requests_are_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        measured(scene(frames=2), AOM, **change)  # type: ignore[arg-type]


def test_ten_bits_are_refused_where_maps_are_learned_and_judged() -> None:
    clip = deep_scene("street", 2)
    with pytest.raises(ConfigError, match="has 10 bits, an evaluation of superblock maps takes 8"):
        measured(clip, EncoderSettings())
    with pytest.raises(ConfigError, match="has 10 bits, the superblock environment takes 8"):
        SuperblockQpEnv(clip)
