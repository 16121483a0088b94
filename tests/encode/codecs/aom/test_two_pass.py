"""libaom in two passes, its quantisers chosen frame by frame."""

from __future__ import annotations

import gc
import math
import threading
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.content.sources import open_clip
from reelrl.encode.codecs.aom import steered_encode
from reelrl.encode.codecs.aom.first_pass import TWO_PASS, two_pass_statistics
from reelrl.encode.codecs.aom.two_pass import TwoPassSession
from reelrl.encode.codecs.decoding import decode
from reelrl.errors import ConfigError, EncoderError, EncoderTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame

# Two scenes: a key frame in the middle, and GOPs of several lengths.
CLIP = "generated:cuts?size=96x64&frames=45"
SETTINGS = replace(TWO_PASS, qp=36, recon=True, deadline_s=60.0)


@cache
def content() -> tuple[Clip, Any, bytes]:
    clip = open_clip(CLIP).load()
    settings = SETTINGS.for_clip(clip)
    return clip, settings, two_pass_statistics(clip, settings)


def session(**changes: Any) -> TwoPassSession:
    clip, settings, statistics = content()
    return TwoPassSession(clip, settings, statistics, **changes)


def coded_with(qs: list[int], **changes: Any) -> TwoPassSession:
    with session(**changes) as encoder:
        for q in qs:
            assert encoder.request() is not None
            encoder.reply(q)
        assert encoder.request() is None
    return encoder


def stream(encoder: TwoPassSession) -> bytes:
    return b"".join(packet.data for packet in encoder.packets)


def waiting_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "aom-two-pass"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert not waiting_threads()


def test_every_frame_is_coded_with_the_quantiser_it_was_given_and_its_cost_is_known_at_the_next_one() -> None:
    clip, _, _ = content()
    rng = np.random.default_rng(0)
    asked: list[int] = []
    with session() as encoder:
        while (question := encoder.request()) is not None:
            assert [frame.qindex for frame in encoder.coded] == asked
            assert question.number == len(asked)
            asked.append(int(rng.integers(60, 240)))
            encoder.reply(asked[-1])
        packets = encoder.packets
    frames = decode(packet.data for packet in packets)
    assert len(frames) == clip.frame_count
    for shown, packet in zip(frames, packets, strict=True):
        np.testing.assert_array_equal(shown.data, packet.recon.data if packet.recon else None)
    # The whole stream is what its coded frames cost, but for headers between them and frames shown again.
    bits = sum(frame.bits for frame in encoder.coded)
    assert 0 <= 8 * len(stream(encoder)) - bits < 64 * clip.frame_count
    kinds = {frame.asked.kind for frame in encoder.coded}
    assert {"key", "arf", "inner_arf", "leaf"} <= kinds
    keys = [frame.asked.frame for frame in encoder.coded if frame.asked.kind == "key"]
    assert keys == [packet.number for packet in packets if packet.frame_type == 0]
    assert {frame.asked.frame for frame in encoder.coded} == set(range(clip.frame_count))


@pytest.mark.parametrize("keep_delta_q", [False, True])
def test_replaying_what_libaom_chose_by_itself_gives_its_bytes(keep_delta_q: bool) -> None:
    clip, settings, statistics = content()
    own = settings if keep_delta_q else replace(settings, options={"deltaq-mode": "0"})
    with TwoPassSession(clip, own, statistics, steered=False) as alone:
        assert alone.request() is None
    again = coded_with([frame.qindex for frame in alone.coded], keep_delta_q=keep_delta_q)
    assert stream(again) == stream(alone)
    # Places, not look-ahead: who only watches is not told it.
    assert [replace(frame.asked, look_ahead=()) for frame in again.coded] == [frame.asked for frame in alone.coded]


def test_sessions_side_by_side_do_not_disturb_each_other() -> None:
    qs = [100 + 3 * (number % 20) for number in range(len(coded_once()))]
    alone = stream(coded_with(qs))
    both = [session(), session()]
    for q in qs:
        for encoder in both:
            encoder.request()
            encoder.reply(q)
    for encoder in both:
        assert encoder.request() is None
        assert stream(encoder) == alone
        encoder.close()


@cache
def coded_once() -> tuple[int, ...]:
    with session() as encoder:
        while encoder.request() is not None:
            encoder.reply(150)
        return tuple(frame.qindex for frame in encoder.coded)


@pytest.mark.parametrize("steps", [0, 1, 7, 30])
@pytest.mark.parametrize("asked", [False, True])
def test_a_session_can_be_left_at_any_step(steps: int, asked: bool) -> None:
    encoder = session(keep_delta_q=True)
    for _ in range(steps):
        encoder.request()
        encoder.reply(180)
    if asked:
        encoder.request()
    encoder.close()
    assert not waiting_threads()
    with pytest.raises(EncoderError, match="closed"):
        encoder.request()


def test_a_session_that_nobody_holds_ends() -> None:
    encoder = session()
    encoder.request()
    del encoder  # the fixture looks for its thread


@pytest.mark.parametrize("bad", [math.nan, 0, 256, -1, 120.0, True, None, np.array([120, 120])])
def test_a_bad_decision_is_refused_and_the_session_goes_on(bad: Any) -> None:
    with session() as encoder:
        encoder.request()
        with pytest.raises(ConfigError, match="qindex = "):
            encoder.reply(bad)
        encoder.reply(np.int64(120))  # type: ignore[arg-type]
        assert encoder.request() is not None
        assert encoder.coded[0].qindex == 120


def test_the_next_gop_is_as_long_as_it_is_told_to_be() -> None:
    clip = open_clip("generated:pan?size=96x64&frames=80").load()
    settings = SETTINGS.for_clip(clip)
    limits, lengths = iter([8, 16, 4, 12, 32, 32]), {}
    with TwoPassSession(clip, settings, two_pass_statistics(clip, settings)) as encoder:
        while (question := encoder.request()) is not None:
            lengths[question.gop] = question.gop_frames
            begins = question.number == 0 or (question.kind == "arf" and question.gop > 0)
            encoder.reply(150, next(limits) if begins else None)
        assert [lengths[gop] for gop in range(1, 5)] == [8, 16, 4, 12]
        assert len(decode(packet.data for packet in encoder.packets)) == 80
    with session() as encoder:
        encoder.request()
        with pytest.raises(ConfigError, match="gop_limit = 64"):
            encoder.reply(100, 64)


def test_a_reply_that_nobody_asked_for_is_refused() -> None:
    with session() as encoder, pytest.raises(EncoderError, match="request"):
        encoder.reply(100)


def test_an_encoder_that_gets_no_answer_ends_and_says_so() -> None:
    encoder = session(patience_s=0.05)
    assert encoder.request() is not None
    encoder._thread.join(30)
    assert not waiting_threads()
    with pytest.raises(EncoderTimeout, match="no decision came for frame 0"):
        encoder.reply(100)


def test_an_error_while_frames_are_read_reaches_the_user() -> None:
    clip, settings, statistics = content()

    def broken() -> Iterator[Frame]:
        for number, frame in enumerate(clip):
            if number == 40:
                raise OSError("the disk is gone")
            yield frame

    encoder = TwoPassSession(broken(), settings, statistics)

    def code_all() -> None:
        while encoder.request() is not None:
            encoder.reply(150)

    with pytest.raises(OSError, match="the disk is gone"):
        code_all()


def test_statistics_of_another_clip_are_refused() -> None:
    clip, settings, statistics = content()
    short = two_pass_statistics(clip.window(0, 20), settings)
    for wrong, said in ((short, "cover 20 frames"), (statistics[:-1], "bytes")):
        encoder = TwoPassSession(clip, settings, wrong, steered=False)
        with pytest.raises(EncoderError, match=said):
            encoder.request()


def test_where_the_private_layout_differs_there_is_a_warning_and_the_public_way_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    qs = list(coded_once())
    # Another field of the same structure.
    monkeypatch.setattr(steered_encode, "_SUPERBLOCKS_AFTER_FLAG", 176)
    with pytest.warns(RuntimeWarning, match="another layout"):
        fallen_back = coded_with(qs, keep_delta_q=True)
    monkeypatch.undo()
    assert len(decode(packet.data for packet in fallen_back.packets)) == 45


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"structure": "low_delay"}, "random_access"),
        ({"backend": "svtav1"}, "backend=aom"),
        ({"bit_depth": 10}, "8 bits"),
        ({"rate_control": "cqp"}, "crf and vbr"),
        ({"rate_control": "vbr", "target_kbps": 100}, "steer it in crf"),
        ({"hierarchical_levels": 4}, "leave them out"),
        ({"width": 0, "height": 0}, "no frame size"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(changes: dict[str, Any], said: str) -> None:
    clip, settings, statistics = content()
    with pytest.raises(ConfigError, match=said):
        TwoPassSession(clip, replace(settings, **changes), statistics)
