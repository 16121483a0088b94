"""Wrong input to a session: a message that says what to do, and a stream that goes on as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.content.frame import Frame
from reelrl.encode import EncoderSession, EncoderSettings, WorkerSession, encode_clip, first_pass
from reelrl.errors import ConfigError, ContentError, EncoderError, ReelError
from tests.encode.makers import (
    BACKENDS,
    HEIGHT,
    STRUCTURES,
    WIDTH,
    bytes_of,
    coded,
    scene,
    settings_for,
    thread_count,
    threads_fall_to,
)

if TYPE_CHECKING:
    from reelrl.encode.codecs.session import Session
    from reelrl.encode.codecs.whole_clip import Decision

pytestmark = pytest.mark.slow

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_structure = pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
each_kind = pytest.mark.parametrize("kind", [EncoderSession, WorkerSession])

GOOD = next(iter(scene("street", 1)))
OTHER_SIZE = next(iter(scene("street", 1, (64, 64))))

BAD_FRAMES: list[tuple[Any, str]] = [
    (OTHER_SIZE, f"frame is 64x64, this stream is {WIDTH}x{HEIGHT}; scale it"),
    (GOOD.data, r"a ndarray was sent; wrap the planes: Frame\(i420, width, height\)"),
    (None, "a NoneType was sent"),
    ("frame", "a str was sent"),
]

BAD_OFFSETS: list[tuple[Any, str]] = [
    ([0, 0, 0], r"offsets have 3 entries, this clip has 4 superblocks \(2 x 2\)"),
    ([], "offsets have 0 entries"),
    ([0] * 5, "offsets have 5 entries"),
    (0, "offsets have no entries"),
    ([[0, 0, 0, 0]], "offsets have 1 x 4 entries"),
    (np.zeros((2, 2, 1), int), "offsets have 2 x 2 x 1 entries"),
    ([[0, 0], [0]], "offsets are no array"),
    ([0.0, 0.0, 1.0, 0.0], "offsets are float64; they are whole QP steps"),
    ([0, 0, float("nan"), 0], "offset of superblock 2 is nan; offsets are finite"),
    ([0, float("-inf"), 0, 0], "offset of superblock 1 is -inf"),
    ([True, False, True, False], "offsets are bool"),
    (["1", "0", "0", "0"], "offsets are <U1"),
    ("0000", "offsets have no entries"),
    ([None, 0, 0, 0], "offsets are object"),
    ([1j, 0, 0, 0], "offsets are complex128"),
    ([0, 0, 0, 25], "offset of superblock 3 is 25; the range is -(3 to 3|24 to 24)"),
    ([0, -25, 0, 0], "offset of superblock 1 is -25; the range is -"),
    (np.array([0, 0, 200, 0], np.uint8), "offset of superblock 2 is 200"),
    ([0, 0, 0, -(2**63)], "the range is -"),
    ([0, 0, 0, 2**70], "offsets are object"),
    ({0: 1, 1: 0, 2: 0, 3: 0}, "offsets have no entries"),
]

BAD_QPS: list[tuple[Any, str]] = [
    (0, "qp = 0; a QP lies in 1 to 63"),
    (64, "qp = 64; a QP lies in 1 to 63"),
    (-1, "qp = -1; a QP lies in 1 to 63"),
    (30.0, r"qp = 30\.0 is float; a QP is a whole number from 1 to 63"),
    (True, "qp = True is bool"),
    (float("nan"), "qp = nan is float"),
    ("30", "qp = '30' is str"),
    (np.float32(30), "is float32"),
    (np.array([30]), "is ndarray"),
]


def check_refused(session: Session, error: type[ReelError], message: str, frame: Any, **action: Any) -> None:
    with pytest.raises(error, match=message):
        session.send(frame, **action)


@each_structure
def test_wrong_frames_and_actions_leave_the_stream_as_it_was(backend: str, structure: str) -> None:
    clip = scene("street", 8)
    settings = settings_for(clip, backend, structure, picture_qp=True)
    packets = []
    with EncoderSession(settings) as session:
        for number, frame in enumerate(clip):
            for bad, message in BAD_FRAMES:
                check_refused(session, ContentError, message, bad)
            for offsets, message in BAD_OFFSETS:
                check_refused(session, ConfigError, message, frame, offsets=offsets)
            for qp, message in BAD_QPS:
                check_refused(session, ConfigError, message, frame, qp=qp)
            assert session.sent == number
            session.send(frame)
            packets += session.receive()
        packets += session.flush()
    assert bytes_of(packets) == bytes_of(coded(clip, settings))


@each_kind
def test_a_wrong_base_is_refused_like_a_wrong_qp(kind: type[Session]) -> None:
    settings = settings_for(scene("street", 1), "svtav1")
    with kind(settings) as session:
        for qp, message in BAD_QPS:
            check_refused(
                session, ConfigError, f"base_{message}" if message.startswith("qp") else message, GOOD, base_qp=qp
            )
        session.send(GOOD)
        assert len(session.receive()) == 1


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.int32, np.int64])
def test_offsets_of_any_whole_type_and_either_shape_mean_the_same(dtype: type[np.integer[Any]]) -> None:
    clip = scene("street", 3)
    settings = settings_for(clip, "svtav1")
    expected = bytes_of(coded(clip, settings, lambda _: {"offsets": [3, 0, 1, 2]}))
    square = np.array([[3, 0], [1, 2]], dtype)
    for offsets in (square.ravel(), square, np.array([[3, 1], [0, 2]], dtype).T):
        decision: Decision = {"offsets": offsets}
        assert bytes_of(coded(clip, settings, lambda _, given=decision: given)) == expected  # type: ignore[misc]


@pytest.mark.parametrize(("width", "height"), [(63, 64), (64, 63), (-64, 64), (64, 0)])
def test_odd_and_empty_sizes_are_refused(width: int, height: int) -> None:
    with pytest.raises(ContentError, match=f"frame size is {width}x{height}; 4:2:0 video needs positive even numbers"):
        EncoderSettings(width=width, height=height)


@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.float32, np.dtype(">u2")])
def test_planes_of_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(ContentError, match=f"frame data is {np.dtype(dtype)}; pass uint8 planes, or uint16 for 10"):
        Frame(np.zeros(WIDTH * HEIGHT * 3 // 2, dtype), WIDTH, HEIGHT)


@each_kind
@each_backend
def test_frames_of_another_depth_and_samples_out_of_range_are_refused(backend: str, kind: type[Session]) -> None:
    deep = GOOD.at_depth(10)
    with kind(settings_for(scene("street", 1), backend)) as session:
        check_refused(session, ContentError, "frame has 10 bits, this stream 8; send frame.at_depth", deep)
    with kind(settings_for(scene("street", 1).at_depth(10), backend)) as session:
        check_refused(session, ContentError, "frame has 8 bits, this stream 10; send frame.at_depth", GOOD)
        broken = Frame(deep.data.copy(), WIDTH, HEIGHT)
        broken.y[3, 5] = 1024
        check_refused(session, ContentError, "a sample of a 10-bit frame is 1024, the largest is 1023", broken)
        session.send(deep)
        assert len(session.flush()) == 1


@each_kind
@each_backend
def test_after_flush_nothing_more_is_taken(backend: str, kind: type[Session]) -> None:
    with kind(settings_for(scene("street", 1), backend)) as session:
        session.send(GOOD)
        assert len(session.flush()) == 1
        check_refused(session, EncoderError, "a frame was sent after flush; open a new session", GOOD)
        assert session.flush() == []
        assert session.sent == 1


@each_kind
@each_backend
def test_after_close_everything_says_so(backend: str, kind: type[Session]) -> None:
    session = kind(settings_for(scene("street", 1), backend))
    session.send(GOOD)
    session.close()
    session.close()
    check_refused(session, EncoderError, "cannot send.*: the session is closed; open another", GOOD)
    with pytest.raises(EncoderError, match="cannot flush: the session is closed; open another"):
        session.flush()
    with pytest.raises(EncoderError, match="the session is closed; open another"):
        session.statistics()
    assert len(session.receive()) == 1, "a packet that was ready is not lost"


@each_kind
@each_backend
@pytest.mark.parametrize("number", [-1, 1, 7])
def test_waiting_for_what_was_never_sent_is_refused(backend: str, kind: type[Session], number: int) -> None:
    with kind(settings_for(scene("street", 1), backend)) as session:
        session.send(GOOD)
        with pytest.raises(ConfigError, match=f"wait_for = {number}, but 1 frames were sent"):
            session.receive(wait_for=number)
        assert [packet.number for packet in session.receive(wait_for=0)] == [0]


@each_kind
@pytest.mark.parametrize(
    ("backend", "options", "message", "words"),
    [
        ("svtav1", {"nonsense": "1"}, "SVT-AV1 refuses nonsense = '1'; check the name and range", ""),
        ("svtav1", {"enable-cdef": "77"}, "could not accept its settings", "Invalid CDEF level"),
        ("svtav1", {"tile-rows": "many"}, "SVT-AV1 refuses tile-rows = 'many'", ""),
        ("aom", {"nonsense": "1"}, "could not take nonsense = '1'", "Cannot find aom option nonsense"),
        ("aom", {"enable-cdef": "77"}, "could not take enable-cdef = '77'", "enable_cdef out of range"),
    ],
)
def test_options_the_library_refuses_come_with_its_last_words(
    kind: type[Session], backend: str, options: dict[str, str], message: str, words: str
) -> None:
    threads = thread_count()
    with pytest.raises(EncoderError, match=message) as caught:
        kind(settings_for(scene("street", 1), backend, options=options))
    assert words in caught.value.last_words
    assert words in str(caught.value)
    assert threads_fall_to(threads)


def test_last_words_of_one_session_are_not_those_of_an_earlier_one() -> None:
    settings = settings_for(scene("street", 1), "svtav1", options={"enable-cdef": "77"})
    with pytest.raises(EncoderError, match="Invalid CDEF"):
        EncoderSession(settings)
    with pytest.raises(EncoderError) as caught:
        EncoderSession(settings_for(scene("street", 1), "svtav1", options={"nonsense": "1"}))
    assert "CDEF" not in str(caught.value)


VBR: dict[str, Any] = {"rate_control": "vbr", "target_kbps": 100.0, "keyint": 30}
TWO_PASS = [("svtav1", "random_access"), ("aom", "low_delay")]


@pytest.mark.parametrize("junk", [b"", b"junk", b"j" * 56, b"j" * 300])
@pytest.mark.parametrize(("backend", "structure"), TWO_PASS)
def test_statistics_that_are_none_are_refused(backend: str, structure: str, junk: bytes) -> None:
    threads = thread_count()
    with pytest.raises(EncoderError, match=r"statistics|stats"):
        coded([GOOD] * 3, settings_for(scene("street", 1), backend, structure, **VBR), statistics=junk)
    assert threads_fall_to(threads)


@pytest.mark.parametrize(("backend", "structure"), TWO_PASS)
def test_frames_beyond_the_statistics_are_refused_by_number(backend: str, structure: str) -> None:
    frames = list(scene("street", 6))
    settings = settings_for(scene("street", 6), backend, structure, **VBR)
    with EncoderSession(settings, statistics=first_pass(scene("street", 6).window(0, 4), settings)) as session:
        for frame in frames[:4]:
            session.send(frame)
        message = "frame 4 is beyond the first-pass statistics, which cover 4 frames"
        check_refused(session, EncoderError, message, frames[4])


def test_svtav1_has_no_first_pass_but_for_vbr() -> None:
    with pytest.raises(ConfigError, match="SVT-AV1 has a first pass for vbr only, not for cqp"):
        first_pass(scene("street", 3), EncoderSettings(backend="svtav1"))


@each_backend
def test_an_error_in_the_callers_decision_reaches_the_caller_and_frees_the_encoder(backend: str) -> None:
    threads = thread_count()

    def decide(number: int, _frame: Frame) -> Any:
        if number == 2:
            raise LookupError("no policy for frame 2")
        return {}

    with pytest.raises(LookupError, match="no policy for frame 2"):
        encode_clip(scene("street", 6), EncoderSettings(backend=backend), decide)
    assert threads_fall_to(threads)


@each_backend
def test_a_session_that_is_dropped_warns_and_is_freed(backend: str) -> None:
    threads = thread_count()
    session = EncoderSession(settings_for(scene("street", 1), backend))
    session.send(GOOD)
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del session
    assert threads_fall_to(threads)
