"""What SVT-AV1's threads do to each other in random access, and what must not come of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.encode.codecs import svtav1
from reelrl.encode.codecs.resting_threads import threads_started_by
from reelrl.encode.codecs.svtav1_api import EMPTY_QUEUE, EOS_FLAG
from reelrl.errors import EncoderError
from tests.encode.busy import busy_processes
from tests.encode.makers import bytes_of, coded, scene, settings_for, thread_count, threads_fall_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.encode.codecs.packet import Packet

ENCODE_WORKERS = (18, 20, 24)  # of the forty threads that `threads=4` starts


class Library:
    """The library with some calls replaced."""

    def __init__(self, lib: Any, **replaced: Any) -> None:
        self._lib = lib
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)


@pytest.mark.parametrize("worker", ENCODE_WORKERS)
def test_a_picture_whose_thread_gets_no_core_is_not_overtaken_out_of_the_stream(
    worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before pictures were held back, three of four such streams were torn or never ended."""
    clip = scene("street", 60, (64, 64))
    settings = settings_for(clip, "svtav1", "random_access", preset=12, threads=4, deadline_s=60)
    expected = bytes_of(coded(clip, settings_for(clip, "svtav1", "random_access", preset=12)))

    def with_one_slow(start: Callable[[], None]) -> list[int]:
        own = threads_started_by(start)
        os.sched_setscheduler(own[worker], os.SCHED_IDLE, os.sched_param(0))
        return own

    monkeypatch.setattr(svtav1, "threads_started_by", with_one_slow)
    with busy_processes(2):
        assert bytes_of(coded(clip, settings)) == expected


@pytest.mark.parametrize("structure", ["low_delay", "random_access"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("number", [0, 5], ids=["numbered-0", "numbered-last"])
def test_an_empty_reconstruction_at_the_end_is_no_picture(
    structure: str, threads: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = scene("street", 6, (64, 64))
    settings = settings_for(clip, "svtav1", structure, preset=12, threads=threads)
    expected = coded(clip, settings)
    finish = svtav1.SvtAv1.finish
    given: list[int] = []

    def finish_with_an_empty_one(self: Any) -> list[Packet]:
        lib = self._lib

        def get_recon(handle: Any, header: Any) -> int:
            if given:
                status: int = lib.svt_av1_get_recon(handle, header)
                return status
            given.append(number)
            header.pts, header.filled, header.flags = number, 0, EOS_FLAG
            return 0

        self._lib = Library(lib, svt_av1_get_recon=get_recon)
        return finish(self)

    monkeypatch.setattr(svtav1.SvtAv1, "finish", finish_with_an_empty_one)
    packets = coded(clip, settings)
    assert given == [number]
    assert [packet.number for packet in packets] == list(range(6))
    assert [packet.picture_bytes for packet in packets] == [packet.picture_bytes for packet in expected]
    for packet, wanted in zip(packets, expected, strict=True):
        assert packet.recon is not None
        assert wanted.recon is not None
        assert packet.recon.data.tobytes() == wanted.recon.data.tobytes()


def test_a_reconstruction_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    drain = svtav1.SvtAv1._drain_recon

    def drain_and_lose(self: Any) -> bool:
        found = drain(self)
        self._recons.pop(3, None)
        return found

    monkeypatch.setattr(svtav1.SvtAv1, "_drain_recon", drain_and_lose)
    clip, before = scene("street", 5, (64, 64)), thread_count()
    with pytest.raises(EncoderError, match=r"without reconstructions of frames \[3, 4\]; encode it again"):
        coded(clip, settings_for(clip, "svtav1", "random_access", preset=12))
    assert threads_fall_to(before)


def test_a_torn_stream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = svtav1.SvtAv1._allocate

    def with_a_gap(self: Any) -> None:
        allocate(self)
        lib = self._lib

        def get_packet(handle: Any, out: Any, all_sent: int) -> int:
            status: int = lib.svt_av1_enc_get_packet(handle, out, all_sent)
            if status != EMPTY_QUEUE and out[0].pts == 2:
                out[0].pts = 4
            return status

        self._lib = Library(lib, svt_av1_enc_get_packet=get_packet)

    monkeypatch.setattr(svtav1.SvtAv1, "_allocate", with_a_gap)
    clip = scene("street", 9, (64, 64))
    with pytest.raises(EncoderError, match="gave frame 4 where frame 2 was due: the stream is torn; encode it again"):
        coded(clip, settings_for(clip, "svtav1", "random_access", preset=12))
