"""Many sessions at once give what each would give alone, on a busy machine too."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from reelrl.encode import EncoderSession
from tests.encode.busy import busy_processes, stream_of, streams_in_threads
from tests.encode.makers import BACKENDS, STRUCTURES, bytes_of, coded, scene, settings_for

pytestmark = pytest.mark.slow

each_structure = pytest.mark.parametrize(("backend", "structure"), STRUCTURES)


@each_structure
def test_four_sessions_interleaved_in_one_thread_give_the_bytes_of_one(backend: str, structure: str) -> None:
    clips = [scene("street", 10, seed=seed) for seed in range(4)]
    packets: list[list[bytes]] = [[] for _ in clips]
    with ExitStack() as stack:
        sessions = [stack.enter_context(EncoderSession(settings_for(clip, backend, structure))) for clip in clips]
        for frames in zip(*clips, strict=True):
            for session, frame, out in zip(sessions, frames, packets, strict=True):
                session.send(frame)
                out += [packet.data for packet in session.receive()]
        for session, out in zip(sessions, packets, strict=True):
            out += [packet.data for packet in session.flush()]
    alone = [bytes_of(coded(clip, settings_for(clip, backend, structure))) for clip in clips]
    assert [b"".join(out) for out in packets] == alone


def test_sessions_of_both_encoders_live_side_by_side() -> None:
    clip = scene("street", 10)
    alone = {pair: bytes_of(coded(clip, settings_for(clip, *pair))) for pair in STRUCTURES}
    with ThreadPoolExecutor(6) as pool:
        jobs = [
            (pair, pool.submit(lambda p: bytes_of(coded(clip, settings_for(clip, *p))), pair))
            for pair in STRUCTURES * 6
        ]
        assert all(job.result() == alone[pair] for pair, job in jobs)


@each_structure
def test_six_threads_give_the_bytes_of_one(backend: str, structure: str) -> None:
    alone = stream_of(backend, structure, frames=12)
    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(lambda _: stream_of(backend, structure, frames=12), range(12)))
    assert found == {alone}


def test_spawned_processes_give_the_same_bytes() -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        jobs = [(pair, pool.submit(stream_of, *pair, 12, 10)) for pair in STRUCTURES * 2]
        assert all(job.result() == stream_of(*pair, frames=10) for pair, job in jobs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_threads_run_while_an_encoder_works(backend: str) -> None:
    """The GIL is free: a thread that counts gets on while frames are coded."""
    clip = scene("street", 12, (352, 288))
    settings = settings_for(clip, backend, preset=6)
    over = threading.Event()
    counted = 0

    def count() -> None:
        nonlocal counted
        while not over.wait(0.0005):
            counted += 1

    thread = threading.Thread(target=count)
    with EncoderSession(settings) as session:
        thread.start()
        for frame in clip:
            session.send(frame)
        over.set()
        thread.join()
    assert counted > 10


@pytest.mark.long
def test_low_delay_sessions_do_not_lock_up_on_a_busy_machine() -> None:
    # Before reelrl.encode.codecs.resting_threads, 3 to 17 % of such sessions hung: 150 of them would have shown it.
    with busy_processes(2):
        assert streams_in_threads(sessions=150, threads=3, preset=12) == {stream_of("svtav1")}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", [8, 10, 12, 13])
@pytest.mark.parametrize("threads", [1, 6])
def test_low_delay_sessions_never_lock_up_on_a_busy_machine(preset: int, threads: int) -> None:
    with busy_processes(3):
        found = streams_in_threads(sessions=400, threads=threads, preset=preset)
    assert found == {stream_of("svtav1", preset=preset)}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_random_access_sessions_never_lock_up_on_a_busy_machine() -> None:
    with busy_processes(3), ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: stream_of("svtav1", "random_access"), range(400)))
    assert found == {stream_of("svtav1", "random_access")}
