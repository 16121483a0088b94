"""Reading which picture is coded where, over made-up streams of every legal shape."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.codecs.coded_pictures import CodedPictures
from reelrl.encode.codecs.obu import FRAME, FRAME_HEADER, SEQUENCE_HEADER, TEMPORAL_DELIMITER, TILE_GROUP
from reelrl.errors import EncoderError
from tests.encode.codecs.test_obu import unit

KEY, INTER, SWITCH = 0, 1, 3
CHOSEN_BY_FRAME = 2


@dataclass(frozen=True)
class Shape:
    """What a sequence header may hold before the field we need."""

    order_hint_bits: int = 7
    timing: bool = False
    equal_intervals: bool = False
    decoder_model: bool = False
    time_bits: int = 9
    display_delay: bool = False
    points: int = 1
    level: int = 4
    frame_ids: bool = False
    screen_content: int = CHOSEN_BY_FRAME
    integer_mv: int = CHOSEN_BY_FRAME


shapes = st.builds(
    Shape,
    order_hint_bits=st.integers(6, 8),
    timing=st.booleans(),
    equal_intervals=st.booleans(),
    decoder_model=st.booleans(),
    time_bits=st.integers(1, 32),
    display_delay=st.booleans(),
    points=st.integers(1, 4),
    level=st.sampled_from([4, 12]),
    frame_ids=st.booleans(),
    screen_content=st.integers(0, 2),
    integer_mv=st.integers(0, 2),
)


class Writer:
    """Bits, the highest of each byte first."""

    def __init__(self) -> None:
        self.text = ""

    def put(self, value: int, count: int) -> None:
        self.text += f"{value:0{count}b}" if count else ""

    def data(self, padding: int = 0) -> bytes:
        text = self.text + "1" + "0" * (-(len(self.text) + 1) % 8) + "0" * 8 * padding
        return int(text, 2).to_bytes(len(text) // 8)


def sequence_header(shape: Shape) -> bytes:
    w = Writer()
    w.put(0, 5)
    w.put(shape.timing, 1)
    if shape.timing:
        w.put(1001, 32)
        w.put(30000, 32)
        w.put(shape.equal_intervals, 1)
        if shape.equal_intervals:
            w.put(0b00101, 5)
        w.put(shape.decoder_model, 1)
        if shape.decoder_model:
            w.put(11, 5)
            w.put(77, 32)
            w.put(4, 5)
            w.put(shape.time_bits - 1, 5)
    w.put(shape.display_delay, 1)
    w.put(shape.points - 1, 5)
    for _ in range(shape.points):
        w.put(0x101, 12)
        w.put(shape.level, 5)
        if shape.level > 7:
            w.put(1, 1)
        if shape.timing and shape.decoder_model:
            w.put(1, 1)
            w.put(5, 12)
            w.put(6, 12)
            w.put(0, 1)
        if shape.display_delay:
            w.put(1, 1)
            w.put(9, 4)
    w.put(6, 4)
    w.put(5, 4)
    w.put(127, 7)
    w.put(33, 6)
    w.put(shape.frame_ids, 1)
    if shape.frame_ids:
        w.put(3, 4)
        w.put(2, 3)
    w.put(0b101, 3)
    w.put(0b1010, 4)
    w.put(1, 1)
    w.put(0b01, 2)
    w.put(shape.screen_content == CHOSEN_BY_FRAME, 1)
    if shape.screen_content != CHOSEN_BY_FRAME:
        w.put(shape.screen_content, 1)
    if shape.screen_content:
        w.put(shape.integer_mv == CHOSEN_BY_FRAME, 1)
        if shape.integer_mv != CHOSEN_BY_FRAME:
            w.put(shape.integer_mv, 1)
    w.put(shape.order_hint_bits - 1, 3)
    return unit(SEQUENCE_HEADER, w.data())


def frame_header(shape: Shape, number: int, kind: int, shown: bool, tool: int, padding: int) -> bytes:
    w = Writer()
    w.put(0, 1)
    w.put(kind, 2)
    w.put(shown, 1)
    if not shown:
        w.put(1, 1)
    elif shape.timing and shape.decoder_model and not shape.equal_intervals:
        w.put(0, shape.time_bits)
    if not (kind == SWITCH or (kind == KEY and shown)):
        w.put(0, 1)
    w.put(1, 1)
    screen_content = shape.screen_content
    if screen_content == CHOSEN_BY_FRAME:
        screen_content = tool
        w.put(tool, 1)
    # Without the tool in the sequence the choice is never written there, and is each frame's.
    if screen_content and (shape.integer_mv == CHOSEN_BY_FRAME or not shape.screen_content):
        w.put(1, 1)
    if shape.frame_ids:
        w.put(5, 8)
    if kind != SWITCH:
        w.put(0, 1)
    w.put(number % 2**shape.order_hint_bits, shape.order_hint_bits)
    return w.data(padding)


SHOW_EXISTING = unit(FRAME_HEADER, b"\x90")


def pyramid(first: int, size: int) -> list[list[tuple[int, bool]]]:
    """Units of a mini-GOP: (picture, shown at once) as coded; an empty one shows a picture coded before."""
    made: list[list[tuple[int, bool]]] = [[] for _ in range(size)]

    def split(low: int, high: int, into: int) -> None:
        if high - low < 2:
            return
        middle = (low + high) // 2
        made[into].append((first + middle - 1, high - low == 2))
        split(low, middle, into)
        split(middle, high, middle)

    made[0].append((first + size - 1, size == 1))
    split(0, size, 0)
    return made


@given(shape=shapes, sizes=st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=40), draw=st.data())
def test_every_picture_is_found_with_its_place_and_bytes(shape: Shape, sizes: list[int], draw: st.DataObject) -> None:
    restart = draw.draw(st.integers(0, 200))
    extra = draw.draw(st.binary(min_size=8, max_size=8))
    tiles_apart = draw.draw(st.booleans())
    stream: list[list[tuple[int, bool]]] = [[(0, True)]]
    for size in sizes:
        stream += pyramid(len(stream), size)
    coded, expected, reader = 0, {}, CodedPictures()
    for shown_number, pictures in enumerate(stream):
        data = unit(TEMPORAL_DELIMITER, b"") + (sequence_header(shape) if shown_number == 0 else b"")
        for number, shown in pictures:
            kind = KEY if number == 0 else SWITCH if extra[coded % 8] % 16 == 0 else INTER
            payload = frame_header(shape, number + restart, kind, shown, extra[coded % 8] % 2, extra[coded % 8])
            part = unit(FRAME, payload)
            if tiles_apart:
                part = unit(FRAME_HEADER, payload) + unit(TILE_GROUP, b"12") + unit(TILE_GROUP, b"345")
            expected[number] = (coded, len(part))
            coded += 1
            data += part
        data += b"" if any(shown for _, shown in pictures) else SHOW_EXISTING
        assert reader.shown(data, shown_number) == expected[shown_number]


def header_unit(number: int, kind: int = INTER, *, shown: bool = True, padding: int = 0) -> bytes:
    return unit(FRAME, frame_header(Shape(), number, kind, shown, 0, padding))


def test_hints_may_start_again_at_a_key_frame() -> None:
    reader = CodedPictures()
    start = sequence_header(Shape()) + header_unit(0, KEY)
    places = [reader.shown(start, 0), reader.shown(header_unit(1), 1), reader.shown(start, 2)]
    places += [reader.shown(header_unit(2, shown=False) + header_unit(1), 3), reader.shown(SHOW_EXISTING, 4)]
    assert [order for order, _ in places] == [0, 1, 2, 4, 3]


def test_a_picture_coded_twice_has_the_place_of_the_first_and_the_bytes_of_both() -> None:
    reader = CodedPictures()
    reader.shown(sequence_header(Shape()) + header_unit(0, KEY), 0)
    hidden, overlay = header_unit(2, shown=False, padding=50), header_unit(2)
    assert reader.shown(hidden + header_unit(1), 1)[0] == 2
    assert reader.shown(overlay, 2) == (1, len(hidden) + len(overlay))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header_unit(0, KEY), "picture 0 comes before any sequence header; start with a key frame"),
        (sequence_header(Shape()) + SHOW_EXISTING, r"shows picture 0 without having coded it; not yet shown: \[\]"),
        (unit(SEQUENCE_HEADER, b"\x00\x00"), "a header of 2 bytes ends before its bit"),
        (sequence_header(Shape()) + unit(FRAME, b"\x10"), "a header of 1 bytes ends before its bit"),
    ],
)
def test_a_stream_that_cannot_be_read_is_an_error_of_ours(data: bytes, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        CodedPictures().shown(data, 0)


@given(st.lists(st.tuples(st.sampled_from([1, 3, 4, 6]), st.binary(max_size=40)), max_size=5))
def test_any_payload_is_read_or_refused(parts: list[tuple[int, bytes]]) -> None:
    reader = CodedPictures()
    reader.shown(sequence_header(Shape()) + header_unit(0, KEY), 0)
    try:
        order, size = reader.shown(b"".join(unit(kind, payload) for kind, payload in parts), 1)
    except EncoderError:
        return
    assert order >= 1
    assert size > 0
