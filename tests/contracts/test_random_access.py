"""Random access: pictures are coded out of order and told apart all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reelrl.encode import EncoderSession, FrameType
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.codecs.obu import FRAME, units
from reelrl.encode.codecs.whole_clip import fresh_first_pass
from reelrl.errors import ConfigError, EncoderTimeout
from tests.encode.busy import busy_processes
from tests.encode.makers import (
    STRUCTURES,
    all_threads_rest,
    bytes_of,
    coded,
    scene,
    settings_for,
    thread_count,
    threads_fall_to,
)
from tests.waiting import until

if TYPE_CHECKING:
    from reelrl.encode.codecs.packet import Packet

pytestmark = pytest.mark.slow

BACKENDS = [backend for backend, structure in STRUCTURES if structure == "random_access"]
each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_thread_count = pytest.mark.parametrize("threads", [1, 2, 4])
each_depth = pytest.mark.parametrize("levels", [2, 3, 4, 5])


def told_of(packet: Packet) -> tuple[object, ...]:
    assert packet.recon is not None
    known = (packet.number, packet.coding_order, packet.picture_bytes, packet.layer, packet.qp, packet.sse)
    return *known, packet.data, packet.recon.data.tobytes()


@each_backend
@each_depth
def test_coding_order_is_a_permutation_that_starts_each_mini_gop_with_its_last_picture(
    backend: str, levels: int
) -> None:
    size = 2**levels
    clip = scene("street", 2 * size + 1)
    packets = coded(clip, settings_for(clip, backend, "random_access", hierarchical_levels=levels))
    orders = [packet.coding_order for packet in packets]
    assert sorted(orders) == list(range(clip.frame_count))
    assert (orders[0], orders[size], orders[2 * size]) == (0, 1, size + 1)


@each_backend
@each_depth
def test_layers_follow_the_pyramid(backend: str, levels: int) -> None:
    size = 2**levels
    clip = scene("street", size + 1)
    packets = coded(clip, settings_for(clip, backend, "random_access", hierarchical_levels=levels))
    assert packets[size].layer == 0
    assert packets[size // 2].layer == 1
    assert {packet.layer for packet in packets[1::2]} == {levels}
    assert {packet.frame_type for packet in packets[1::2]} == {FrameType.NON_REFERENCE}


@each_backend
def test_picture_bytes_explain_nearly_all_of_a_stream(backend: str) -> None:
    clip = scene("street", 33, (256, 128))
    packets = coded(clip, settings_for(clip, backend, "random_access", hierarchical_levels=3, qp=30))
    explained, total = sum(packet.picture_bytes for packet in packets), len(bytes_of(packets))
    headers = sum(unit.size for packet in packets for unit in units(packet.data) if unit.kind != FRAME)
    assert explained + headers == total
    assert explained >= 0.98 * total
    assert all(packet.picture_bytes > 0 for packet in packets)


@each_backend
def test_units_carry_pictures_shown_later(backend: str) -> None:
    clip = scene("street", 17)
    packets = coded(clip, settings_for(clip, backend, "random_access", hierarchical_levels=3))
    assert packets[1].size > packets[1].picture_bytes + packets[8].picture_bytes
    assert packets[8].size < packets[8].picture_bytes


@each_backend
@each_thread_count
@pytest.mark.parametrize("busy", [0, 3], ids=["quiet", "busy"])
def test_threads_and_load_change_nothing_that_is_told_of_a_picture(backend: str, threads: int, busy: int) -> None:
    clip = scene("street", 45, (64, 64))
    settings = settings_for(clip, backend, "random_access", preset=12, deadline_s=60)
    alone = [told_of(packet) for packet in coded(clip, settings)]
    with busy_processes(busy):
        for _ in range(3):
            assert [told_of(packet) for packet in coded(clip, replace(settings, threads=threads))] == alone


@each_backend
@each_thread_count
@pytest.mark.parametrize("measured", [True, False], ids=["measured", "unmeasured"])
def test_the_order_of_coding_is_right_on_clips_longer_than_the_stream_can_count(
    backend: str, threads: int, measured: bool
) -> None:
    clip = scene("street", 1 + 4 * 70, (64, 64))  # a stream's order hints count to 128
    settings = settings_for(clip, backend, "random_access", preset=12, threads=threads, recon=False, psnr=measured)
    packets = coded(clip, replace(settings, deadline_s=60))
    expected = [0] + [4 * mini_gop + place for mini_gop in range(70) for place in (3, 2, 4, 1)]
    assert [packet.coding_order for packet in packets] == expected


@each_backend
@pytest.mark.parametrize("keyint", [1, 2, 7, 30])
def test_key_frames_are_coded_where_they_are_shown(backend: str, keyint: int) -> None:
    clip = scene("street", 70, (64, 64))
    packets = coded(clip, settings_for(clip, backend, "random_access", preset=12, keyint=keyint, threads=2))
    keys = [packet for packet in packets if packet.frame_type == FrameType.KEY]
    assert [packet.number for packet in keys] == list(range(0, 70, keyint))
    assert [packet.coding_order for packet in keys] == list(range(0, 70, keyint))
    assert sorted(packet.coding_order for packet in packets) == list(range(70))


@each_backend
@each_thread_count
def test_a_first_pass_is_the_same_on_any_number_of_threads(backend: str, threads: int) -> None:
    clip = scene("street", 40, (64, 64))
    vbr = settings_for(clip, backend, "random_access", rate_control="vbr", target_kbps=60, keyint=32, preset=12)
    found, wanted = fresh_first_pass(clip, replace(vbr, threads=threads)), fresh_first_pass(clip, vbr)
    assert found[:-5] == wanted[:-5]  # the last record ends in padding, which holds whatever was there


@each_backend
@each_thread_count
def test_in_two_passes_too_pictures_are_told_apart(backend: str, threads: int) -> None:
    clip = scene("street", 41, (64, 64))
    vbr = settings_for(clip, backend, "random_access", rate_control="vbr", target_kbps=60, keyint=32, preset=12)
    packets = coded(clip, replace(vbr, threads=threads), statistics=fresh_first_pass(clip, vbr))
    assert sorted(packet.coding_order for packet in packets) == list(range(41))
    pictures = sorted(unit.size for packet in packets for unit in units(packet.data) if unit.kind == FRAME)
    assert sorted(packet.picture_bytes for packet in packets) == pictures


@each_backend
def test_errors_are_those_of_what_a_decoder_shows_with_or_without_reconstruction(backend: str) -> None:
    clip = scene("street", 34, (256, 128))
    settings = settings_for(clip, backend, "random_access", preset=8, rate_control="crf")
    shown, unseen = coded(clip, settings), coded(clip, replace(settings, recon=False))
    assert [packet.sse for packet in unseen] == [packet.sse for packet in shown]
    assert {packet.recon for packet in unseen} == {None}


@each_backend
@pytest.mark.parametrize("options", [{}, {"enable-tf": "0"}], ids=["filtered", "unfiltered"])
def test_one_may_wait_for_a_frame_that_can_be_finished(backend: str, options: dict[str, str]) -> None:
    clip = scene("street", 24)
    settings = settings_for(clip, backend, "random_access", hierarchical_levels=2, options=options)
    seen: list[int] = []
    packets = []
    with EncoderSession(settings) as session:
        for number, frame in enumerate(clip):
            session.send(frame)
            # A mini-GOP is on its way once the encoder has looked a little beyond it.
            if number >= 12 and number % 4 == 0:
                got = session.receive(wait_for=number - 12)
                packets += got
                seen.append(packets[-1].number)
                assert packets[-1].number >= number - 12
        packets += session.flush()
    assert seen == sorted(seen)
    assert bytes_of(packets) == bytes_of(coded(clip, settings))


@each_backend
def test_waiting_again_for_a_delivered_frame_returns_at_once(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = scene("street", 24)
    with EncoderSession(settings_for(clip, backend, "random_access")) as session:
        for frame in clip:
            session.send(frame)
        first = session.receive(wait_for=2)
        monkeypatch.setattr(session, "_wait", lambda number: pytest.fail(f"it waits for frame {number} again"))
        assert all(packet.number > first[-1].number for packet in session.receive(wait_for=2))


@each_backend
def test_waiting_for_a_frame_that_needs_more_input_ends_at_the_deadline(backend: str) -> None:
    clip = scene("street", 3)
    before = thread_count()
    with EncoderSession(settings_for(clip, backend, "random_access")) as session:
        for frame in clip:
            session.send(frame)
        # The encoder gives up before its thread is given up, however long either of them is not let run.
        session._encoder._settings = replace(session.settings, deadline_s=0.5)  # type: ignore[union-attr]
        with pytest.raises(EncoderTimeout, match=r"did not deliver frame 2 within 0\.5 s"):
            session.receive(wait_for=2)
    assert threads_fall_to(before)


@each_backend
@each_depth
def test_the_base_moves_by_mini_gops(backend: str, levels: int) -> None:
    size = 2**levels
    clip = scene("talk", 3 * size + 1)
    bases = {1: 30, size + 1: 50, 2 * size + 1: 20}
    settings = settings_for(clip, backend, "random_access", hierarchical_levels=levels)
    packets = coded(clip, settings, lambda number: {"base_qp": bases.get(number)})
    tops = [packet.qp for packet in packets[1::2]]
    third = size // 2
    assert all(abs(qp - 30) <= 2 for qp in tops[:third])
    assert all(abs(qp - 50) <= 2 for qp in tops[third : 2 * third])
    assert all(abs(qp - 20) <= 2 for qp in tops[2 * third :])


@each_backend
def test_a_second_base_in_a_mini_gop_is_refused_before_it_locks_the_encoder(backend: str) -> None:
    clip = scene("street", 40)
    refused = 0
    packets = []
    with EncoderSession(settings_for(clip, backend, "random_access", hierarchical_levels=3)) as session:
        for number, frame in enumerate(clip):
            try:
                session.send(frame, base_qp=30 + number % 10)
            except ConfigError as error:
                assert f"base_qp = {30 + number % 10} for frame {number}" in str(error)  # noqa: PT017
                assert "once in 8 frames" in str(error)  # noqa: PT017
                refused += 1
                session.send(frame)
            packets += session.receive()
        packets += session.flush()
    assert refused == 40 - 6
    assert len(decode([packet.data for packet in packets])) == 40


@each_backend
def test_crf_looks_further_ahead_than_cqp_before_it_gives_a_mini_gop(backend: str) -> None:
    clip = scene("street", 40)
    first: dict[str, int] = {}
    for mode in ("cqp", "crf"):
        with EncoderSession(settings_for(clip, backend, "random_access", rate_control=mode)) as session:
            for number, frame in enumerate(clip):
                session.send(frame)
                until(all_threads_rest)  # it has finished what it can
                if any(packet.number >= 4 for packet in session.receive()):
                    first.setdefault(mode, number)
            session.flush()
    assert 4 < first["cqp"] < first["crf"]
