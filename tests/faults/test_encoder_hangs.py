"""Encoders that do not answer and users who do not wait."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest

from reelrl.encode import EncoderSession
from reelrl.encode.codecs.backends import encoder_class
from reelrl.encode.codecs.deadline_thread import DeadlineThread
from reelrl.errors import EncoderError, EncoderTimeout
from tests.encode.makers import (
    BACKENDS,
    all_threads_rest,
    hurry,
    run_python,
    scene,
    settings_for,
    thread_count,
    threads_fall_to,
)
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

each_backend = pytest.mark.parametrize("backend", BACKENDS)
GOOD = next(iter(scene("street", 1)))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """An event that blocked jobs wait for; opened at the end, so that their threads leave."""
    event = threading.Event()
    yield event
    event.set()


# -- lanes -------------------------------------------------------------------------------------------------------


def test_a_deadline_thread_gives_results_and_errors_of_its_jobs() -> None:
    thread = DeadlineThread("test")
    assert thread.call(lambda: 6 * 7, HANG_S, "multiply") == 42
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0, HANG_S, "divide")
    assert thread.call(threading.get_ident, HANG_S, "tell its thread") != threading.get_ident()
    thread.close()


def test_a_deadline_thread_is_one_thread_and_ends_it() -> None:
    threads = thread_count()
    thread = DeadlineThread("test")
    assert len({thread.call(threading.get_ident, HANG_S, "tell") for _ in range(5)}) == 1
    thread.close()
    assert threads_fall_to(threads)


def test_a_job_that_blocks_costs_its_deadline_and_no_more(gate: threading.Event) -> None:
    thread = DeadlineThread("test")
    started = time.monotonic()
    with pytest.raises(EncoderTimeout, match=r"the encoder did not wake up within 0\.2 s; the session is lost"):
        thread.call(gate.wait, 0.2, "wake up")
    assert time.monotonic() - started >= 0.2
    with pytest.raises(EncoderTimeout, match="cannot go on: an earlier call never came back"):
        thread.call(lambda: None, 3600, "go on")  # this one is not waited for
    thread.close()


class Interrupt(BaseException):
    """What the tests' own signal raises, wherever the main thread is."""


@pytest.fixture
def interrupts() -> Iterator[list[bool]]:
    """Interrupts hail on the main thread whenever the list is not empty."""
    armed: list[bool] = []
    over = threading.Event()
    rng = random.Random(0)

    def strike(*_: object) -> None:
        if armed:
            armed.clear()
            raise Interrupt

    def hail() -> None:
        while not over.is_set():
            time.sleep(rng.random() * 2e-4)
            signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, strike)
    thread = threading.Thread(target=hail)
    thread.start()
    yield armed
    over.set()
    thread.join()
    signal.signal(signal.SIGUSR1, before)


def test_after_an_interrupt_at_any_instant_a_thread_gives_each_job_its_own_answer(interrupts: list[bool]) -> None:
    thread = DeadlineThread("test")
    struck, give_up = 0, time.monotonic() + 3
    for number in itertools.count():
        try:
            interrupts.append(True)
            answer = thread.call(lambda n=number: n, HANG_S, "count")  # type: ignore[misc]
            interrupts.clear()
        except Interrupt:
            struck += 1
            continue
        assert answer == number
        if struck >= 1000 or (struck > 100 and time.monotonic() > give_up):
            break
    assert thread.call(lambda: "last", HANG_S, "count") == "last"
    thread.close()


# -- sessions ----------------------------------------------------------------------------------------------------


def blocked_session(
    backend: str, gate: threading.Event, deadline_s: float = 0.3, blocks: Callable[[], None] = lambda: None
) -> EncoderSession:
    """A session whose encoder never answers again; `blocks` is called when it has got to work."""
    session = EncoderSession(settings_for(scene("street", 1), backend))
    hurry(session, deadline_s)
    encoder = session._encoder

    def block(*_: object) -> list[object]:
        blocks()
        gate.wait()
        return []

    encoder.encode = block  # type: ignore[union-attr, method-assign]
    return session


@each_backend
def test_a_hanging_encoder_is_given_up_at_the_deadline(backend: str, gate: threading.Event) -> None:
    session = blocked_session(backend, gate)
    with pytest.raises(EncoderTimeout, match=r"did not code frame 0 within 0\.3 s.*WorkerSession"):
        session.send(GOOD)
    for use in (lambda: session.send(GOOD), session.flush, session.statistics):
        with pytest.raises(EncoderError, match=r"the session failed before: the encoder did not code frame 0"):
            use()
    session.close()
    session.close()


@each_backend
def test_other_sessions_go_on_beside_a_hanging_one(backend: str, gate: threading.Event) -> None:
    with blocked_session(backend, gate) as stuck:
        with pytest.raises(EncoderTimeout):
            stuck.send(GOOD)
        with EncoderSession(settings_for(scene("street", 1), backend)) as other:
            other.send(GOOD)
            assert len(other.flush()) == 1


@pytest.mark.parametrize("backend", ["aom", pytest.param("svtav1", marks=pytest.mark.long)])
def test_a_process_with_a_hanging_encoder_can_end(backend: str) -> None:
    code = f"""
    import threading
    from tests.faults.test_encoder_hangs import GOOD, blocked_session
    from reelrl.errors import EncoderTimeout
    session = blocked_session({backend!r}, threading.Event())
    try:
        session.send(GOOD)
    except EncoderTimeout as error:
        print("late")
    """
    done = run_python(textwrap.dedent(code))
    assert (done.returncode, done.stdout) == (0, "late\n"), done.stderr


@pytest.mark.parametrize("backend", ["aom", pytest.param("svtav1", marks=pytest.mark.long)])
def test_a_process_that_forgets_to_close_ends_well(backend: str) -> None:
    code = f"""
    from reelrl.encode import EncoderSession
    from tests.encode.makers import scene, settings_for
    clip = scene("street", 3)
    kept = [EncoderSession(settings_for(clip, {backend!r})) for _ in range(3)]
    for session in kept:
        for frame in clip:
            session.send(frame)
    print("end")
    """
    done = run_python(textwrap.dedent(code))
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


# -- interrupts --------------------------------------------------------------------------------------------------


def press_ctrl_c() -> None:
    """Once the main thread waits: Python notices a signal that comes just before a wait only after it."""
    until(lambda: all_threads_rest(str(os.getpid())))
    os.kill(os.getpid(), signal.SIGINT)


@each_backend
def test_an_interrupt_reaches_the_caller_while_the_encoder_works(backend: str, gate: threading.Event) -> None:
    session = blocked_session(backend, gate, deadline_s=3600, blocks=press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        session.send(GOOD)
    # The frame was coded behind our back: going on would give a stream with a gap.
    with pytest.raises(EncoderError, match="interrupted while it should code frame 0; open another session"):
        session.send(GOOD)
    gate.set()
    threads = thread_count()
    session.close()
    assert threads_fall_to(threads - 1)


@each_backend
def test_an_interrupt_at_any_instant_leaves_no_gap_in_a_stream(backend: str, interrupts: list[bool]) -> None:
    struck = refused = 0
    while struck < 60 or refused <= 5:
        numbers: list[int] = []
        with EncoderSession(settings_for(scene("street", 1, (64, 64)), backend, preset=12)) as session:
            for frame in list(scene("street", 3, (64, 64))) * 3:
                try:
                    interrupts.append(True)
                    session.send(frame)
                    interrupts.clear()
                except Interrupt:
                    struck += 1
                except EncoderError as error:
                    interrupts.clear()
                    assert "interrupted while it should code frame" in str(error)  # noqa: PT017
                    refused += 1
                    break
                numbers += [packet.number for packet in session.receive()]
        assert numbers == list(range(len(numbers)))


@each_backend
def test_an_encoder_whose_opening_was_interrupted_is_freed(
    backend: str, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = encoder_class(backend)
    settings = settings_for(scene("street", 1), backend)
    made = []

    class Slow(opening):  # type: ignore[misc, valid-type]
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)
            press_ctrl_c()
            threading.Timer(0.2, gate.set).start()
            gate.wait()

    with EncoderSession(settings):
        pass  # loads the library and what it keeps
    threads = thread_count()
    monkeypatch.setattr("reelrl.encode.codecs.session.encoder_class", lambda _name: Slow)
    with pytest.raises(KeyboardInterrupt):
        EncoderSession(settings)
    assert len(made) == 1
    assert threads_fall_to(threads)


INTERRUPTED = """
import threading
from reelrl.encode import {kind} as Kind
from reelrl.encode.codecs.scheduling import thread_classes
from tests.encode.makers import scene, settings_for
clip = scene("street", 12, (352, 288))
frames = list(clip)
session = Kind(settings_for(clip, {backend!r}, {structure!r}, preset=4))
print("coding", flush=True)
try:
    while True:
        for frame in frames:
            session.send(frame)
            session.receive()
except KeyboardInterrupt:
    session.close()
    left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    print("interrupted", left, flush=True)
    raise
"""


@pytest.mark.parametrize(
    ("kind", "backend", "structure"),
    [
        ("EncoderSession", "svtav1", "random_access"),
        ("WorkerSession", "svtav1", "low_delay"),
        pytest.param("EncoderSession", "aom", "low_delay", marks=pytest.mark.long),
        pytest.param("EncoderSession", "svtav1", "low_delay", marks=pytest.mark.long),
        pytest.param("WorkerSession", "svtav1", "random_access", marks=pytest.mark.long),
        pytest.param("WorkerSession", "aom", "low_delay", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_ends_a_program_that_encodes(kind: str, backend: str, structure: str) -> None:
    code = INTERRUPTED.format(kind=kind, backend=backend, structure=structure)
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "coding\n"
        time.sleep(0.3)  # somewhere within the encoding
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=HANG_S)
    finally:
        program.kill()
    assert output == "interrupted []\n", errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert program.returncode == -signal.SIGINT
