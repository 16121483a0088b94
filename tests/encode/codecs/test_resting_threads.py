"""Knowing an encoder's threads, and when they rest."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.codecs import resting_threads as quiet
from reelrl.encode.codecs.resting_threads import RestWatch, ThreadWatch, threads_started_by
from tests.encode.makers import bytes_of, coded, open_files, scene, settings_for
from tests.waiting import HANG_S, until


def name_of_this_thread() -> str:
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text()


def test_threads_are_told_from_those_that_others_start() -> None:
    over = threading.Event()
    mine: list[threading.Thread] = []
    others: list[threading.Thread] = []

    def start_some(into: list[threading.Thread]) -> None:
        for _ in range(5):
            thread = threading.Thread(target=over.wait)
            thread.start()
            into.append(thread)
            time.sleep(0.002)

    before = name_of_this_thread()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(os.getpid).result()  # its thread is made here, not under the mark

        def start() -> None:
            meanwhile = pool.submit(start_some, others)
            start_some(mine)
            meanwhile.result()

        found = threads_started_by(start)
    assert found == [thread.native_id for thread in mine]
    assert len(others) == 5
    assert name_of_this_thread() == before
    over.set()
    for thread in mine + others:
        thread.join()


def test_an_error_in_starting_leaves_the_name_as_it_was() -> None:
    before = name_of_this_thread()

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        threads_started_by(fail)
    assert name_of_this_thread() == before


def test_waiting_ends_when_the_threads_sleep_or_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    over, busy = threading.Event(), threading.Event()
    busy.set()

    def work() -> None:
        while busy.is_set():
            pass
        over.wait()

    thread = threading.Thread(target=work)
    thread.start()
    watch = ThreadWatch([thread.native_id or 0])
    watch.wait()  # ends at its limit: the thread works on
    busy.clear()
    until(lambda: quiet._sleeps(watch._files[0]))
    monkeypatch.setattr(quiet, "_LIMIT_S", HANG_S)
    watch.wait()
    over.set()
    thread.join()
    watch.close()


def test_threads_that_ended_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    files = open_files()
    thread = threading.Thread(target=time.sleep, args=(0.05,))
    thread.start()
    watch = ThreadWatch([thread.native_id or 0, 2**22 + 1])
    thread.join()
    monkeypatch.setattr(quiet, "_LIMIT_S", HANG_S)
    watch.wait()
    watch.close()
    assert open_files() <= files


def test_sessions_open_and_work_while_other_threads_come_and_go() -> None:
    clip = scene("street", 4, (64, 64))
    settings = settings_for(clip, "svtav1", preset=12)
    expected = bytes_of(coded(clip, settings))
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            thread = threading.Thread(target=os.getpid)
            thread.start()
            thread.join()

    workers = [threading.Thread(target=churn) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        assert {bytes_of(coded(clip, settings)) for _ in range(40)} == {expected}
    finally:
        over.set()
        for worker in workers:
            worker.join()


def test_a_busy_thread_that_began_with_the_session_does_not_slow_it_down() -> None:
    clip = scene("street", 12, (64, 64))
    over = threading.Event()
    begun = threading.Barrier(2)

    def spin() -> None:
        begun.wait()
        while not over.wait(0):
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    begun.wait()
    try:
        with EncoderSession(settings_for(clip, "svtav1", preset=12)) as session:
            watched = session._encoder._watch._files  # type: ignore[union-attr]
            assert len(watched) == 3, "only the encoder's own cleaners are watched"
            for frame in clip:
                session.send(frame)
    finally:
        over.set()
        thread.join()


def test_rest_is_seen_when_all_sleep_and_only_then() -> None:
    over = threading.Event()
    sleeper = threading.Thread(target=over.wait)
    [asleep] = threads_started_by(sleeper.start)
    both = RestWatch([asleep, threading.get_native_id()])
    alone = RestWatch([asleep])
    try:
        assert not any(both.at_rest() for _ in range(20))  # who looks is awake
        give_up = time.monotonic() + 30
        while not alone.at_rest() and time.monotonic() < give_up:
            time.sleep(0.001)
        assert alone.at_rest()
    finally:
        over.set()
        sleeper.join()
        both.close()
        alone.close()


def test_threads_that_wake_each_other_between_two_looks_are_not_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    own = threading.get_native_id()
    watch = RestWatch([own, own])
    looks = iter([(b"S", b"7"), (b"S", b"4"), (b"S", b"8"), (b"S", b"4")])  # the first ran while the second was seen
    monkeypatch.setattr(quiet, "_state_and_switches", lambda _: next(looks))
    assert not watch.at_rest()
    looks = iter([(b"S", b"8"), (b"S", b"4")] * 2)
    assert watch.at_rest()
    watch.close()
