"""Encoder threads run at ordinary priority, whoever starts them. Root alone could do otherwise."""

from __future__ import annotations

import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import av
import pytest

from reelrl.encode import EncoderSession, normal_scheduling
from reelrl.encode.scheduling import thread_classes
from tests.encode.makers import BACKENDS, STRUCTURES, run_python, scene, settings_for

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


def test_the_libsvtav1_of_pyav_is_held_to_it_too() -> None:
    with av.open(io.BytesIO(), "w", format="ivf") as container:
        stream = container.add_stream("libsvtav1", rate=30, options={"preset": "10", "svtav1-params": "lp=1"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        with normal_scheduling():
            stream.codec_context.open()
        assert classes() == {ORDINARY}
        for frame in scene("street", 4, (64, 64)):
            picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, 64), format="yuv420p")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
        assert classes() == {ORDINARY}
    assert classes() == {ORDINARY}


@as_root
def test_without_it_the_library_would_take_real_time() -> None:
    # If this fails the library has mended its ways, and normal_scheduling can go.
    code = """
import numpy as np
from reelrl.encode import svtav1_api as api
from reelrl.encode.scheduling import thread_classes
handle, config = api.ffi.new("void**"), np.zeros(api.CONFIG_BYTES, np.uint8)
api.load().lib.svt_av1_enc_init_handle(handle, api.ffi.from_buffer(config))
print(max(thread_classes().values()), flush=True)
import os; os._exit(0)
"""
    assert run_python(code).stdout == "(1, 99)\n"


@as_root
def test_callers_and_new_threads_get_the_callers_class_back() -> None:
    ready, done = threading.Event(), threading.Event()

    def work() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    with normal_scheduling():
        go_real_time()
        thread.start()
        ready.wait()
        assert REAL_TIME in classes()
    assert classes() == {ORDINARY}
    done.set()
    thread.join()


@as_root
def test_a_real_time_thread_of_the_users_own_stays_one() -> None:
    seen: list[tuple[int, int]] = []

    def work() -> None:
        go_real_time()
        with normal_scheduling():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        seen.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [REAL_TIME]


@as_root
def test_who_looks_while_another_is_in_real_time_does_not_put_it_back_there() -> None:
    raised = threading.Event()
    seen: list[tuple[int, int]] = []

    def first() -> None:
        with normal_scheduling():
            go_real_time()
            raised.set()
            over.wait(0.2)
        over.wait(0.5)
        seen.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))

    def second() -> None:
        raised.wait()
        with normal_scheduling():
            over.wait(0.3)

    over = threading.Event()  # never set: a way to sleep
    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [ORDINARY]


def test_an_error_inside_passes_through() -> None:
    with pytest.raises(LookupError), normal_scheduling():
        raise LookupError
    assert classes() == {ORDINARY}
