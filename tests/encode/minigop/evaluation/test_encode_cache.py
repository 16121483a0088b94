from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.minigop.evaluation.encode_cache import Encode, Stream, cached_encode, encode_key, measured
from reelrl.storage.cache import store
from reelrl.storage.files import cache_dir
from tests.encode.makers import scene

SETTINGS = EncoderSettings(preset=10, ssim=True, recon=False)


def fresh() -> Stream:
    return Stream(encode_clip(scene(frames=3), SETTINGS).packets, seconds=0.5, deltas=[0.25])


def never() -> Stream:
    raise AssertionError("encoded again")


def made(decisions: object = "mine") -> Encode:
    return cached_encode(scene(frames=3), SETTINGS, decisions, fresh)


def test_an_encode_is_made_once() -> None:
    first = made()
    assert cached_encode(scene(frames=3), SETTINGS, "mine", never) == first
    assert first.deltas == [0.25]


def test_totals_are_those_of_the_encoder_layer() -> None:
    coded = encode_clip(scene(frames=3), SETTINGS)
    found = made()
    assert found.size_bytes == coded.size_bytes
    assert found.kbps == pytest.approx(coded.kbps)
    assert found.quality["psnr_y"] == pytest.approx(coded.psnr_y)
    assert found.quality["psnr_y_of_mean"] == pytest.approx(coded.psnr_y_of_mean)


@pytest.mark.parametrize(
    "change",
    [{"qp": 41}, {"preset": 9}, {"threads": 2}, {"options": {"sharpness": "1"}}, {"structure": "random_access"}],
)
def test_other_settings_are_another_encode(change: dict[str, object]) -> None:
    other = replace(SETTINGS, **change)  # type: ignore[arg-type]
    assert encode_key(scene(frames=3), other, "mine") != encode_key(scene(frames=3), SETTINGS, "mine")


def test_other_pixels_and_decisions_are_another_encode() -> None:
    keys = [encode_key(scene(frames=3, seed=seed), SETTINGS, by) for seed in (0, 1) for by in ("mine", "yours")]
    assert len(set(keys)) == 4


def test_what_changes_no_byte_changes_no_name() -> None:
    other = replace(SETTINGS, deadline_s=5, recon=True, ssim=False, psnr=False)
    assert encode_key(scene(frames=3), other, "mine") == encode_key(scene(frames=3), SETTINGS, "mine")


def test_a_damaged_file_is_made_anew() -> None:
    first = made("damaged")
    path = cache_dir() / "minigop" / f"{encode_key(scene(frames=3), SETTINGS, 'damaged')}.json"
    path.write_bytes(path.read_bytes()[:-40])
    assert made("damaged") == first
    assert cached_encode(scene(frames=3), SETTINGS, "damaged", never) == first


def test_vmaf_is_told_only_where_it_was_asked_for() -> None:
    plain = made("seen by VMAF")
    path = cache_dir() / "minigop" / f"{encode_key(scene(frames=3), SETTINGS, 'seen by VMAF')}.json"
    store(path, json.dumps(asdict(replace(plain, vmaf=80.0))).encode())
    assert cached_encode(scene(frames=3), SETTINGS, "seen by VMAF", never) == plain
    assert cached_encode(scene(frames=3), SETTINGS, "seen by VMAF", never, with_vmaf=True).quality["vmaf"] == 80


def test_a_replay_can_be_checked_by_the_hash() -> None:
    assert measured(scene(frames=3), fresh()).stream_hash == made().stream_hash
