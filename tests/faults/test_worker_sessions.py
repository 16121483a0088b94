"""Sessions in a process of their own: they give the same stream, and survive whatever their encoder does."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.encode import EncoderSession, WorkerSession, first_pass
from reelrl.encode.codecs.worker import _limit_blocking
from reelrl.errors import EncoderError, EncoderMissing, EncoderTimeout
from tests.encode.handshake import handshakes
from tests.encode.makers import (
    STRUCTURES,
    bytes_of,
    coded,
    hurry,
    open_files,
    random_decisions,
    run_python,
    scene,
    settings_for,
    thread_count,
    threads_fall_to,
)
from tests.waiting import until

if TYPE_CHECKING:
    from reelrl.encode.codecs.packet import Packet

pytestmark = pytest.mark.slow

GOOD = next(iter(scene("street", 1)))


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def worker(**changes: Any) -> WorkerSession:
    return WorkerSession(settings_for(scene("street", 1), "svtav1", **changes))


def pid_of(session: WorkerSession) -> int:
    assert session.pid is not None
    return session.pid


def plain(packets: list[Packet]) -> list[tuple[Any, ...]]:
    return [
        (p.data, p.number, p.frame_type, p.layer, p.qp, p.coding_order, p.picture_bytes, p.sse, p.ssim) for p in packets
    ]


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_a_worker_gives_the_packets_of_a_session_here(backend: str, structure: str) -> None:
    clip = scene("street", 10)
    decisions = random_decisions(10, clip.superblock_count)
    settings = settings_for(clip, backend, structure, picture_qp=True, ssim=True)
    here, there = (
        coded(clip, settings, lambda number: decisions[number], kind) for kind in (EncoderSession, WorkerSession)
    )
    assert plain(there) == plain(here)
    assert [packet.recon for packet in there] == [packet.recon for packet in here]


def test_a_worker_makes_and_takes_first_passes() -> None:
    clip = scene("street", 12)
    settings = settings_for(clip, "svtav1", "random_access", rate_control="vbr", target_kbps=100.0, keyint=30)
    with WorkerSession(settings, first_pass=True) as session:
        for frame in clip:
            session.send(frame)
        session.flush()
        statistics = session.statistics()
    # Not the logs are compared but what they lead to: SVT-AV1 leaves holes in its records as it found them.
    here = coded(clip, settings, statistics=first_pass(clip, settings))
    there = coded(clip, settings, kind=WorkerSession, statistics=statistics)
    assert bytes_of(there) == bytes_of(here)


def test_one_may_wait_for_a_frame_in_a_worker() -> None:
    clip = scene("street", 24)
    with WorkerSession(settings_for(clip, "svtav1", "random_access")) as session:
        for frame in clip:
            session.send(frame)
        packets = session.receive(wait_for=4)
        assert packets[-1].number >= 4
        assert session.receive(wait_for=2) == []
        packets += session.flush()
    assert [packet.number for packet in packets] == list(range(24))


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_crash_of_the_encoder_is_an_error_that_names_it(how: signal.Signals) -> None:
    with worker() as session:
        session.send(GOOD)
        pid = pid_of(session)
        os.kill(pid, how)
        with pytest.raises(EncoderError, match=rf"the encoder process died while it should send: ended by {how.name}"):
            session.send(GOOD)
        assert len(session.receive()) == 1, "packets that were here are not lost"
        with pytest.raises(EncoderError, match="the session is closed; open another"):
            session.flush()
    assert not is_alive(pid)


def test_a_crash_comes_with_the_childs_last_words() -> None:
    with worker() as session:
        os.kill(pid_of(session), signal.SIGSEGV)
        with pytest.raises(EncoderError) as caught:
            session.send(GOOD)
    assert "Segmentation fault" in caught.value.last_words


@pytest.mark.parametrize("size", [(128, 96), (1280, 720)], ids=["small", "larger-than-the-pipe"])
def test_a_process_that_hangs_is_killed_after_the_deadline(size: tuple[int, int]) -> None:
    clip = scene("street", 1, size)
    with WorkerSession(settings_for(clip, "svtav1")) as session:
        pid = pid_of(session)
        hurry(session, 0.5)
        _limit_blocking(session._connection, 2.5)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EncoderTimeout, match=r"the encoder process .* 2\.5 s and was killed"):
            session.send(next(iter(clip)))
    assert not is_alive(pid)


def test_a_deadline_inside_the_child_is_reported_as_such() -> None:
    clip = scene("street", 3)
    with WorkerSession(settings_for(clip, "svtav1", "random_access", deadline_s=2.0)) as session:
        pid = pid_of(session)
        for frame in clip:
            session.send(frame)
        with pytest.raises(EncoderTimeout, match=r"did not deliver frame 2 within 2 s"):
            session.receive(wait_for=2)
    assert not is_alive(pid)


def test_closing_leaves_nothing() -> None:
    with worker() as session:
        session.send(GOOD)
    files, threads = open_files(), thread_count()
    pids = []
    for _ in range(3):
        with worker() as session:
            session.send(GOOD)
            pids.append(pid_of(session))
    gc.collect()
    assert not any(map(is_alive, pids))
    assert open_files() <= files
    assert threads_fall_to(threads)


def test_a_worker_goes_when_its_parent_does() -> None:
    code = """
import os
from tests.faults.test_worker_sessions import worker
session = worker()
print(session.pid, flush=True)
os._exit(0)
"""
    pid = int(run_python(code).stdout)
    until(lambda: not handshakes.is_alive(pid))  # it may be a zombie where nobody takes orphans in


def test_two_workers_do_not_hold_each_others_pipes() -> None:
    first = worker()
    with worker() as second:
        pid = pid_of(first)
        first.close()
        assert not is_alive(pid)
        second.send(GOOD)
        assert len(second.flush()) == 1


def test_a_worker_that_is_dropped_warns_and_ends() -> None:
    session = worker()
    pid = pid_of(session)
    with pytest.warns(ResourceWarning, match="a WorkerSession was dropped without close"):
        del session
    assert not is_alive(pid)


@pytest.mark.parametrize("kind", [EncoderError, EncoderTimeout, EncoderMissing])
def test_errors_cross_processes_with_their_last_words(kind: type[EncoderError]) -> None:
    error = kind("it failed", "famous last words")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.last_words) == (str(error), "famous last words")


def test_what_the_child_prints_does_not_reach_our_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with worker(options={"enable-cdef": "0"}) as session:
        session.send(GOOD)
    assert capfd.readouterr() == ("", "")
