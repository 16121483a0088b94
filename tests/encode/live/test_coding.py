"""Live coding on the real encoder: nothing is looked at ahead, the buffer holds, options do what they say."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.content.clip import Clip, concatenate
from reelrl.content.frame import Frame
from reelrl.content.generated.clips import generated_clip
from reelrl.content.quality import sse
from reelrl.encode.codecs.aom.realtime import REAL_TIME
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.codecs.packet import FrameType
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.live.clips import DEVELOPMENT, TEST, open_live, shaken
from reelrl.encode.live.coding import FLAT, LIVE, LIVE_AOM, LivePlan, LiveStream, encode_live
from reelrl.encode.live.controller import LiveTuning
from reelrl.encode.live.drawn import is_drawn
from reelrl.encode.live.link import Uplink
from reelrl.encode.live.own_cbr import own_cbr
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.slow

SIZE = (160, 96)


def shot(style: str, frames: int, seed: int = 1) -> Clip:
    return generated_clip(style, size=SIZE, frames=frames, seed=seed)


@cache
def cut_clip() -> Clip:
    return concatenate([shot("talk", 18), shot("pan", 22)]).load()


def drawn(frames: int, hidden: frozenset[int] = frozenset()) -> Clip:
    """A ball over a wall, of few levels, as old games are; it is not shown in `hidden` frames."""
    made = [Frame.empty(*SIZE) for _ in range(frames)]
    for number, frame in enumerate(made):
        for plane, level in zip(frame.planes, (16, 128, 128), strict=True):
            plane[:] = level
        frame.y[60:] = np.where(np.arange(SIZE[0]) % 8 < 4, 90, 140)
        if number not in hidden:
            frame.y[20:28, 5 * number % 150 :][:, :8] = 235
    return Clip.from_frames(made, name="drawn", fps=30)


@cache
def coded(clip: Clip, **chosen: Any) -> LiveStream:
    return encode_live(clip, LivePlan(**{"kbps": 120.0, "buffer_s": 0.5, **chosen}))


def data(stream: LiveStream) -> list[bytes]:
    return [packet.data for packet in stream.packets if packet is not None]


@pytest.mark.parametrize("bits", ["rule", "learned"])
def test_no_frame_knows_of_a_later_one(bits: str) -> None:
    """Streams are the same to the byte up to the frame at which their sources begin to differ."""
    begin = shot("street", 14)
    one, other = (concatenate([begin, shot(style, 6)]) for style in ("pan", "screen"))
    first, second = (data(encode_live(clip, LivePlan(150, 0.5, bits=bits))) for clip in (one, other))
    assert first[:14] == second[:14]
    assert first[14] != second[14]


def test_drawn_streams_are_coded_as_the_encoders_own_cbr_codes_them_frame_by_frame() -> None:
    plan = LivePlan(40, 0.5)
    begin = encode_live(drawn(18), plan)
    other = encode_live(drawn(18, hidden=frozenset({14})), plan)
    cbr = encode_clip(drawn(18), own_cbr(LIVE, 2, 40, 0.5)).packets
    assert begin.cbr_frames == 18
    assert data(begin) == [packet.data for packet in cbr]
    assert data(begin)[:14] == data(other)[:14]  # nothing of a later frame is known
    assert data(begin)[14] != data(other)[14]
    qps = encode_live(drawn(18), LivePlan(40, 0.5, qps=True))
    assert qps.cbr_frames == 0
    assert data(qps) != data(begin)


def test_cbr_ends_at_the_first_frame_that_is_not_drawn() -> None:
    clip = concatenate([drawn(10), shot("street", 8), drawn(4)]).load()
    stream = encode_live(clip, LivePlan(80, 0.5))
    assert stream.cbr_frames == 10
    assert data(stream)[:10] == data(encode_live(drawn(10), LivePlan(80, 0.5)))
    packets = [packet for packet in stream.packets if packet]
    assert [packet.number for packet in packets] == list(range(22))
    assert [packet.number for packet in packets if packet.frame_type is FrameType.KEY] == [0, 10]
    assert stream.viewer.late == 0
    pictures = decode(data(stream))
    errors = [sse(source.y, picture.y) for source, picture in zip(clip, pictures, strict=True)]
    assert errors == stream.sse_y


def test_a_drawn_stream_follows_its_link() -> None:
    link = Uplink((0.0, 1.0, 2.0), (60.0, 6.0))
    stream = encode_live(drawn(60), LivePlan(400, 0.5, link=link))
    bits = [8 * packet.size for packet in stream.packets if packet]
    assert sum(bits[30:60]) < 0.6 * sum(bits[:30])


def test_a_drawn_stream_goes_on_by_qps_where_cbr_has_filled_the_bucket() -> None:
    link = Uplink((0.0, 0.5, 3.0), (200.0, 4.0))
    stream = coded(drawn(60), kbps=400.0, buffer_s=0.2, link=link)
    assert 15 < stream.cbr_frames < 60
    *begin, last = [delay for delay in stream.viewer.delays_s[: stream.cbr_frames] if delay is not None]
    assert last > 0.2 >= max(begin)


def test_few_levels_are_drawn_and_what_a_camera_or_a_screen_shows_is_not() -> None:
    for style in ("street", "pan", "noise", "screen", "talk", "water"):
        assert not is_drawn(next(iter(shot(style, 1))))
    (picture,) = drawn(1)
    assert is_drawn(picture)
    assert is_drawn(picture.at_depth(10))
    blank = Frame.empty(*SIZE)
    blank.data[:] = 128
    assert is_drawn(blank)  # games flicker
    # A hundredth of the picture may have any levels.
    picture.y[0, :60] = np.arange(50, 110)
    assert is_drawn(picture)
    picture.y[:8, :150] = np.arange(50, 200)
    assert not is_drawn(picture)


@pytest.mark.parametrize("bits", ["rule", "learned"])
@pytest.mark.parametrize("style", ["street", "talk"])
def test_a_steady_clip_is_never_late_and_near_its_rate(style: str, bits: str) -> None:
    clip = shot(style, 60)
    stream = coded(clip, buffer_s=1.0, bits=bits)
    assert stream.viewer.late == 0
    # A bucket may hold a second of the rate at the end, of a clip of two.
    assert 0.6 < stream.bits / clip.duration_s / 120_000 < 1.5


def test_a_cut_is_met_by_its_own_frame() -> None:
    stream = coded(cut_clip())
    bits = [8 * packet.size for packet in stream.packets if packet]
    assert stream.viewer.late <= 1
    assert bits[18] > 5 * bits[17]
    assert max(delay or 0.0 for delay in stream.viewer.delays_s[18:24]) > 0.2  # it was given a good part of the buffer


def test_a_scene_begins_with_a_key_frame_and_a_flash_does_not() -> None:
    stream = coded(cut_clip())
    keys = [n for n, packet in enumerate(stream.packets) if packet and packet.frame_type is FrameType.KEY]
    assert keys == [0, 18]
    flash = concatenate([shot("talk", 12), shot("pan", 1), shot("talk", 20).window(12, 8)]).load()
    stream = coded(flash)
    keys = [n for n, packet in enumerate(stream.packets) if packet and packet.frame_type is FrameType.KEY]
    assert keys == [0, 12]
    pictures = decode(data(stream))
    assert [sse(source.y, picture.y) for source, picture in zip(flash, pictures, strict=True)] == stream.sse_y


def test_a_new_slide_is_not_late() -> None:
    """A screen stands still and then shows something else, with the same wall around it: no cut."""
    clip = concatenate([shot("screen", 13, seed) for seed in (2, 3)]).load()
    stream = coded(clip, kbps=80.0)
    assert stream.viewer.late == 0
    bits = [8 * packet.size for packet in stream.packets if packet]
    # Nobody refers to frame 13, which shows it first: frame 14 gets the bits.
    assert bits[14] > 3 * bits[13]


def test_dropped_frames_leave_their_time_to_those_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Noise at three kilobits: no QP is coarse enough.
    clip = shot("noise", 30)
    stream = encode_live(clip, LivePlan(3, 0.5, drop=True))
    assert stream.dropped > 3
    assert len(stream.sse_y) == clip.frame_count
    assert len(decode(data(stream))) == clip.frame_count - stream.dropped
    out, recipe = tmp_path / "live.mkv", f"generated:noise?size={SIZE[0]}x{SIZE[1]}&frames=30&seed=1"
    asked = ["encode", recipe, "-o", str(out), "--bitrate", "3", "--live", "--buffer", "0.5", "--drop", "--json"]
    assert main(asked) == 0
    facts = json.loads(capsys.readouterr().out)
    with av.open(str(out)) as file:
        times = [float(frame.time) for frame in file.decode(video=0)]
    kept = [number for number, qp in enumerate(facts["qps"]) if qp is not None]
    assert len(kept) == 30 - facts["dropped"] < 27
    assert times == pytest.approx([number / 30 for number in kept], abs=2e-3)


def test_a_frame_that_was_tried_takes_what_it_was_meant_to() -> None:
    room = 0.5 * 120_000
    plain, tried = coded(cut_clip()), coded(cut_clip(), twice=True)
    for stream in (plain, tried):
        first = stream.packets[0]
        assert first is not None
        assert 8 * first.size < room
    fills = [8 * stream.packets[0].size / room for stream in (plain, tried) if stream.packets[0]]
    meant = LiveTuning().key_fill
    assert abs(fills[1] - meant) <= abs(fills[0] - meant) + 0.05


def test_the_rate_follows_a_link() -> None:
    clip = shot("street", 60)
    stream = encode_live(clip, LivePlan(400, 0.5, link=Uplink((0.0, 1.0, 2.0), (300.0, 60.0)), watch=True))
    bits = [8 * packet.size for packet in stream.packets if packet]
    assert sum(bits[33:60]) < 0.6 * sum(bits[3:30])
    assert len(stream.viewer.sse_y) == 60
    assert all(seen >= own for seen, own in zip(stream.viewer.sse_y, stream.sse_y, strict=True) if seen != own)


def test_libaom_in_real_time_codes_each_picture_at_its_qp() -> None:
    clip = shot("street", 10)
    asked = [24, *range(30, 48, 2)]
    made = encode_clip(clip, EncoderSettings(backend=REAL_TIME, picture_qp=True), lambda n, _: {"qp": asked[n]})
    assert [packet.qp for packet in made.packets] == asked
    pictures = decode([packet.data for packet in made.packets])
    assert all(picture == packet.recon for picture, packet in zip(pictures, made.packets, strict=True))
    stream = encode_live(clip, LivePlan(150, 1.0, tuning=FLAT), LIVE_AOM)
    assert stream.viewer.late == 0


def test_structures_that_look_ahead_are_refused() -> None:
    with pytest.raises(ConfigError, match="use low_delay"):
        encode_live(shot("talk", 2), LivePlan(100), EncoderSettings(structure="random_access"))


def sources(sets: Iterable[Iterable[str]]) -> set[str]:
    """Names of recipes and catalogue entries, without sizes, seeds and windows."""
    parts = [part for names in sets for name in names for part in name.split("+")]
    return {re.sub(r"^(shaken|flickering)\(|\)$|\[.*|\?.*", "", part) for part in parts}


def test_no_source_is_on_both_sides() -> None:
    assert not sources(DEVELOPMENT.values()) & sources(TEST.values())


def test_clips_are_cut_joined_and_shaken() -> None:
    text = "generated:talk?size=160x96&frames=9[2:5]+shaken(generated:pan?size=96x64&frames=4)"
    clip = open_live(text)
    assert (clip.frame_count, clip.width, clip.name) == (7, 160, text)
    pictures = [frame.y.astype(int) for frame in shaken(shot("talk", 3))]
    still = [frame.y.astype(int) for frame in shot("talk", 3)]
    assert np.abs(pictures[1] - pictures[0]).mean() > 2 * np.abs(still[1] - still[0]).mean()
    first, second = open_live("flickering(generated:talk?size=160x96&frames=2)")
    assert first.y.std() > 10
    assert second.y.std() == 0
    with pytest.raises(ConfigError, match=r"\[first:end\]"):
        open_live("generated:talk[5:5]")


def test_the_command_says_what_was_late_and_what_a_viewer_sees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "link.json", tmp_path / "out.ivf"
    slots = [{"duration_ms": 1000, "bandwidth_kbps": rate, "latency_ms": 20} for rate in (200, 80)]
    trace.write_text(json.dumps(slots))
    asked = ["encode", "generated:street?size=160x96&frames=30", "-o", str(out), "--bitrate", "300", "--live"]
    assert main([*asked, "--trace", str(trace), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["frames"] == len(facts["qps"]) == 30
    assert facts["cbr_frames"] == 0
    assert facts["seen_psnr_y"] <= facts["psnr_y"] + 1e-6
    assert main([*asked, "--buffer", "0.5"]) == 0
    assert re.search(r"sent +buffer 0.5 s +\d+ late", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--bitrate", "100", "--buffer", "1"], "--buffer goes with --live"),
        (["--bitrate", "100", "--live", "--buffer", "0"], "holds some time"),
        (["--crf", "30", "--live"], "--crf with --live"),
        (["--bitrate", "100", "--live", "--workers", "2"], "--workers with --live"),
        (["--bitrate", "100", "--live", "--policy", "nowhere.safetensors"], "no predictor of live bits"),
        (["--bitrate", "100", "--live", "--trace", "nowhere.json"], "nowhere.json"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encode", "generated:talk?size=96x64&frames=2", "-o", str(tmp_path / "o.ivf"), *more]) == 1
    assert said in capsys.readouterr().err


def test_cbr_takes_a_new_target_in_mid_stream_and_others_refuse_it() -> None:
    clip = shot("street", 60)
    cbr = EncoderSettings(rate_control="cbr", target_kbps=300, hierarchical_levels=2, recon=False)
    sizes = [packet.size for packet in encode_clip(clip, cbr, lambda n, _: {"kbps": 60} if n == 30 else {}).packets]
    assert sum(sizes[32:]) < 0.5 * sum(sizes[2:30])
    with pytest.raises(ConfigError, match="no target to move"):
        encode_clip(clip, EncoderSettings(), lambda _n, _f: {"kbps": 100})
    with pytest.raises(ConfigError, match="1 kbit/s or more"):
        encode_clip(clip, cbr, lambda _n, _f: {"kbps": 0.0})
