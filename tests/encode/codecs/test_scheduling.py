"""Encoder threads run at ordinary priority, whoever starts them. Root alone could do otherwise."""

from __future__ import annotations

import io
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import av
import pytest

from reelrl.encode import EncoderSession, normal_scheduling
from reelrl.encode.codecs import scheduling
from reelrl.encode.codecs.scheduling import thread_classes
from tests.encode.makers import BACKENDS, STRUCTURES, run_python, scene, settings_for, thread_count
from tests.waiting import HANG_S

ORDINARY = (os.SCHED_OTHER, 0)
REAL_TIME = (os.SCHED_FIFO, 10)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run threads in real time")


def classes() -> set[tuple[int, int]]:
    return set(thread_classes().values())


def go_real_time() -> None:
    os.sched_setscheduler(0, REAL_TIME[0], os.sched_param(REAL_TIME[1]))


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_no_thread_is_in_real_time_while_and_after_a_session_works(backend: str, structure: str) -> None:
    clip = scene("street", 6)
    with EncoderSession(settings_for(clip, backend, structure, threads=2)) as session:
        assert classes() == {ORDINARY}
        for frame in clip:
            session.send(frame)
        assert classes() == {ORDINARY}
        session.flush()
    assert classes() == {ORDINARY}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_thread_is_in_real_time_when_threads_open_sessions_at_once(backend: str) -> None:
    clip = scene("street", 2, (64, 64))

    def encode(_: int) -> tuple[int, int]:
        with EncoderSession(settings_for(clip, backend)) as session:
            for frame in clip:
                session.send(frame)
            session.flush()
        return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(encode, range(60))) == {ORDINARY}
        assert classes() == {ORDINARY}


def pyav_encode(open_first: bool) -> list[set[tuple[int, int]]]:
    """Classes of all threads after each step of an encode by PyAV, which opens on the first picture or before."""
    seen = []
    with av.open(io.BytesIO(), "w", format="ivf") as container:
        stream = container.add_stream("libsvtav1", rate=30, options={"preset": "10", "svtav1-params": "lp=2"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        if open_first:
            stream.codec_context.open()
            seen.append(classes())
        for frame in scene("street", 4, (64, 64)):
            picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, 64), format="yuv420p")
            container.mux(stream.encode(picture))
            seen.append(classes())
        assert thread_count() > 10  # the encoder's threads were among those seen
        container.mux(stream.encode(None))
        seen.append(classes())
    return seen


@pytest.mark.parametrize("open_first", [True, False], ids=["opened", "opened by the first picture"])
def test_the_libsvtav1_of_pyav_never_takes_real_time_inside(open_first: bool) -> None:
    with normal_scheduling():
        seen = pyav_encode(open_first)
    assert len(seen) == 5 + open_first
    assert all(found == {ORDINARY} for found in seen)
    assert classes() == {ORDINARY}


@as_root
def test_outside_the_libsvtav1_of_pyav_would_take_real_time() -> None:
    code = """
from tests.encode.codecs.test_scheduling import pyav_encode
print(max(pyav_encode(False)[0]), flush=True)
import os; os._exit(0)
"""
    assert run_python(code).stdout == "(1, 99)\n"


@as_root
def test_without_it_the_library_would_take_real_time() -> None:
    # If this fails the library has mended its ways, and normal_scheduling can go.
    code = """
import numpy as np
from reelrl.encode.codecs import svtav1_api as api
from reelrl.encode.codecs.scheduling import thread_classes
handle, config = api.ffi.new("void**"), np.zeros(api.CONFIG_BYTES, np.uint8)
api.load().lib.svt_av1_enc_init_handle(handle, api.ffi.from_buffer(config))
print(max(thread_classes().values()), flush=True)
import os; os._exit(0)
"""
    assert run_python(code).stdout == "(1, 99)\n"


def refused() -> bool:
    """Whether this thread may not go to real time; it is put back at once if it may."""
    try:
        go_real_time()
    except PermissionError:
        return True
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return False


@as_root
def test_inside_no_thread_can_go_to_real_time_and_afterwards_the_caller_can() -> None:
    inside: list[bool] = []
    with normal_scheduling():
        inside.append(refused())
        with normal_scheduling():
            inside.append(refused())
        inside.append(refused())
        thread = threading.Thread(target=lambda: inside.append(refused()))
        thread.start()
        thread.join()
    assert inside == [True] * 4
    assert not refused()


def test_a_limit_that_grants_real_time_is_taken_away_and_given_back_by_the_last_who_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [(50, 60)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    first, second = normal_scheduling(), normal_scheduling()
    for step in (first.__enter__, second.__enter__):
        step()
        assert limits[-1] == (0, 60)
    first.__exit__(None, None, None)
    assert limits[-1] == (0, 60)
    second.__exit__(None, None, None)
    assert limits == [(50, 60), (0, 60), (50, 60)]


@as_root
def test_a_real_time_thread_of_the_users_own_stays_one() -> None:
    seen: list[tuple[int, int]] = []

    def work() -> None:
        go_real_time()
        with normal_scheduling():
            with pytest.raises(PermissionError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            seen.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))
        seen.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [REAL_TIME, REAL_TIME]


@as_root
def test_where_capabilities_cannot_be_changed_the_caller_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "_may_raise", lambda _allowed: False)
    with normal_scheduling():
        go_real_time()
        assert REAL_TIME in classes()
    assert classes() == {ORDINARY}


def test_one_who_is_inside_keeps_no_other_out() -> None:
    with normal_scheduling(), ThreadPoolExecutor(1) as pool:

        def enter() -> bool:
            with normal_scheduling():
                return True

        assert pool.submit(enter).result(timeout=HANG_S)


def test_an_error_inside_passes_through() -> None:
    with pytest.raises(LookupError), normal_scheduling():
        raise LookupError
    assert classes() == {ORDINARY}
