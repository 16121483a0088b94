"""The encoders' own rate control, as baselines: it runs, comes near its target and repeats itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.encode import Encoded, EncoderSession, EncoderSettings, encode_clip, first_pass
from reelrl.encode.codecs.decoding import decode
from reelrl.storage.files import cache_dir
from tests.encode.makers import BACKENDS, bytes_of, coded, scene, settings_for

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.content.clip import Clip

SIZE = (176, 144)
TARGETS = [60.0, pytest.param(200.0, marks=pytest.mark.long)]
VBR = [("svtav1", "random_access"), ("aom", "low_delay")]
each_vbr = pytest.mark.parametrize(("backend", "structure"), VBR)
each_backend = pytest.mark.parametrize("backend", BACKENDS)


def clip() -> Clip:
    return scene("street", 90, SIZE)


def vbr(backend: str, structure: str, target_kbps: float = 100.0, **changes: Any) -> EncoderSettings:
    usual: dict[str, Any] = {"rate_control": "vbr", "target_kbps": target_kbps, "keyint": 90, "recon": False}
    return settings_for(clip(), backend, structure, **usual | changes)


@pytest.mark.slow
@each_vbr
@pytest.mark.parametrize("target_kbps", TARGETS)
def test_one_pass_vbr_comes_within_half_of_its_target(backend: str, structure: str, target_kbps: float) -> None:
    # Three seconds are little for a rate control: the band is wide on purpose.
    done = encode_clip(clip(), vbr(backend, structure, target_kbps))
    assert 0.5 * target_kbps < done.kbps < 1.5 * target_kbps


@pytest.mark.slow
@each_vbr
@pytest.mark.parametrize("target_kbps", TARGETS)
def test_two_pass_vbr_comes_within_a_third_of_its_target(backend: str, structure: str, target_kbps: float) -> None:
    settings = vbr(backend, structure, target_kbps)
    done = encode_clip(clip(), settings, statistics=first_pass(clip(), settings))
    assert 0.67 * target_kbps < done.kbps < 1.33 * target_kbps


@pytest.mark.long
@pytest.mark.slow
@each_vbr
def test_two_pass_vbr_repeats_itself_to_the_byte(backend: str, structure: str) -> None:
    settings = vbr(backend, structure)
    statistics = first_pass(clip(), settings)
    one, two = (bytes_of(coded(clip(), settings, statistics=statistics)) for _ in range(2))
    assert one == two
    assert one != bytes_of(coded(clip(), settings)), "the statistics change the stream"


@pytest.mark.slow
@each_vbr
def test_one_pass_vbr_repeats_itself_on_one_thread(backend: str, structure: str) -> None:
    short = scene("street", 30)
    settings = settings_for(short, backend, structure, rate_control="vbr", target_kbps=100.0, keyint=30)
    assert len({bytes_of(coded(short, settings)) for _ in range(3)}) == 1


@pytest.mark.slow
@each_backend
@pytest.mark.parametrize("target_kbps", TARGETS)
def test_cbr_comes_within_twice_its_target(backend: str, target_kbps: float) -> None:
    # libaom lets the first key frame have seconds' worth of bits, which a short clip does not make up for.
    settings = settings_for(clip(), backend, rate_control="cbr", target_kbps=target_kbps, recon=False)
    done = encode_clip(clip(), settings)
    assert 0.5 * target_kbps < done.kbps < 2 * target_kbps


@each_backend
@pytest.mark.parametrize("mode", ["cbr", "crf"])
def test_streams_of_other_modes_are_true_too(backend: str, mode: str) -> None:
    short = scene("street", 12)
    target = 100.0 if mode == "cbr" else None
    packets = coded(short, settings_for(short, backend, rate_control=mode, target_kbps=target))
    assert [packet.recon for packet in packets] == decode([packet.data for packet in packets])
    assert all(0 <= packet.qp <= 63 for packet in packets)


@each_backend
def test_a_lower_crf_is_better_and_larger(backend: str) -> None:
    short = scene("street", 12)
    fine, coarse = (encode_clip(short, EncoderSettings(backend=backend, rate_control="crf", qp=qp)) for qp in (25, 50))
    assert fine.size_bytes > coarse.size_bytes
    assert fine.psnr_y > coarse.psnr_y


# -- the first pass ----------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bool]:
    """Grows by one for each session that first_pass opens; the cache starts empty."""
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    sessions: list[bool] = []

    class Counting(EncoderSession):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            sessions.append(True)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr("reelrl.encode.codecs.whole_clip.EncoderSession", Counting)
    return sessions


@each_vbr
def test_a_first_pass_is_made_once(backend: str, structure: str, opened: list[bool]) -> None:
    settings = vbr(backend, structure, target_kbps=123.0)
    first = first_pass(clip(), settings)
    assert len(opened) == 1
    assert first_pass(clip(), settings) == first
    assert len(opened) == 1


@each_vbr
def test_a_first_pass_is_made_anew_for_whatever_it_depends_on(backend: str, structure: str, opened: list[bool]) -> None:
    short = scene("street", 6, (128, 96))
    settings = settings_for(short, backend, structure, rate_control="vbr", target_kbps=77.0, keyint=30)
    first_pass(short, settings)
    others = [
        (scene("street", 6, (128, 96), seed=1), settings),
        (scene("street", 5, (128, 96)), settings),
        (short, settings_for(short, backend, structure, rate_control="vbr", target_kbps=77.0, keyint=30, preset=4)),
    ]
    if backend != "svtav1":  # whose first pass takes one thread anyway
        others.append((short, replace(settings, threads=2)))
    for number, (other, changed) in enumerate(others, start=2):
        first_pass(other, changed)
        assert len(opened) == number


def test_clips_of_the_same_bytes_but_another_shape_have_first_passes_of_their_own(opened: list[bool]) -> None:
    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame

    wide = scene("street", 4, (128, 64))
    tall = Clip.from_frames([Frame(frame.data, 64, 128) for frame in wide], fps=30)
    assert wide.content_hash == tall.content_hash
    first_pass(wide, EncoderSettings(backend="aom"))
    first_pass(tall, EncoderSettings(backend="aom"))
    assert len(opened) == 2


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    opened: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("REELRL_CACHE", str(blocked / "cache"))
    short = scene("street", 3)
    with pytest.warns(RuntimeWarning, match="are not cached in .* but computed each time"):
        first = first_pass(short, EncoderSettings(backend="aom"))
    assert first_pass(short, EncoderSettings(backend="aom")) == first
    assert len(opened) == 2


def test_a_first_pass_lies_in_the_cache() -> None:
    first_pass(scene("street", 7), EncoderSettings(backend="aom"))
    assert list((cache_dir() / "first-pass").glob("*.bin"))


@pytest.mark.slow
def test_with_statistics_libaom_finds_scene_cuts() -> None:
    cuts = scene("cuts", 60, SIZE)
    keys = [
        p.number for p in encode_clip(cuts, EncoderSettings(backend="aom", recon=False)).packets if p.frame_type == 0
    ]
    live = [p.number for p in coded(cuts, settings_for(cuts, "aom")) if p.frame_type == 0]
    assert live == [0]
    assert len(keys) > 1


# -- whole clips -------------------------------------------------------------------------------------------------


@each_backend
def test_totals_of_an_encoded_clip_are_those_of_its_packets(backend: str, tmp_path: Path) -> None:
    short = scene("street", 12)
    done = encode_clip(short, EncoderSettings(backend=backend, qp=30))
    assert isinstance(done, Encoded)
    assert done.size_bytes == sum(len(packet.data) for packet in done.packets)
    assert done.kbps == pytest.approx(done.size_bytes * 8 / 12 * 30 / 1000)
    assert done.psnr_y == pytest.approx(sum(packet.psnr[0] for packet in done.packets) / 12)
    assert done.psnr_y_of_mean <= done.psnr_y
    assert (done.settings.width, done.settings.height, done.settings.fps) == (short.width, short.height, short.fps)


@each_backend
@pytest.mark.parametrize("suffix", [".ivf", ".mp4", ".webm"])
def test_a_saved_stream_shows_the_reconstruction(backend: str, suffix: str, tmp_path: Path) -> None:
    from reelrl.content.read.video import VideoReader

    done = encode_clip(scene("street", 12), EncoderSettings(backend=backend))
    path = tmp_path / f"out{suffix}"
    done.save(path)
    assert list(VideoReader(path)) == [packet.recon for packet in done.packets]
