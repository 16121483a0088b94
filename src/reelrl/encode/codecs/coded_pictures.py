"""Which picture is coded where in an AV1 stream, as its headers say.

A temporal unit shows one picture and may carry others that are shown later. Each picture's header has an order hint:
its place in display order, counted modulo a power of two. The headers are read up to that field and no further.
"""

from __future__ import annotations

from dataclasses import dataclass

from reelrl.encode.codecs.obu import FRAME, FRAME_HEADER, SEQUENCE_HEADER, TILE_GROUP, units
from reelrl.errors import EncoderError

_KEY, _SWITCH = 0, 3
_CHOSEN_BY_FRAME = 2  # a tool that each frame turns on or off for itself


class CodedPictures:
    """Follows a stream, unit by unit, and says of each picture where it was coded and in how many bytes."""

    def __init__(self) -> None:
        self._sequence: SequenceHeader | None = None
        self._count = 0
        self._hint_zero = 0  # number of a picture with order hint 0; a key frame may move it
        self._found: dict[int, tuple[int, int]] = {}

    def shown(self, unit_data: bytes, number: int) -> tuple[int, int]:
        """Coding order and bytes of picture `number`, which this temporal unit shows; units come in display order."""
        for order_hint, size in self._coded(unit_data, number):
            self._enter(self._nearest(order_hint, number), size)
        if number not in self._found:
            raise EncoderError(
                f"the stream shows picture {number} without having coded it; not yet shown: {sorted(self._found)}"
            )
        return self._found.pop(number)

    def _coded(self, unit_data: bytes, number: int) -> list[tuple[int, int]]:
        """Order hint and bytes of each picture in a temporal unit, as coded; pictures shown again count nothing."""
        coded: list[tuple[int, int]] = []
        for unit in units(unit_data):
            payload = unit_data[unit.payload : unit.stop]
            if unit.kind == SEQUENCE_HEADER:
                self._sequence = read_sequence_header(payload)
            elif unit.kind in (FRAME, FRAME_HEADER):
                if self._sequence is None:
                    raise EncoderError(f"picture {number} comes before any sequence header; start with a key frame")
                header = read_frame_header(payload, self._sequence)
                if header is not None:
                    coded.append((header.order_hint, unit.size))
                    if header.shown:
                        self._hint_zero = number - header.order_hint
            elif unit.kind == TILE_GROUP and coded:
                coded[-1] = (coded[-1][0], coded[-1][1] + unit.size)
        return coded

    def _nearest(self, order_hint: int, number: int) -> int:
        """The picture number next to `number` that has this order hint."""
        cycle = 1 << (self._sequence.order_hint_bits if self._sequence else 0)
        ahead = (self._hint_zero + order_hint - number) % cycle
        return number + (ahead if ahead < cycle - ahead else ahead - cycle)

    def _enter(self, number: int, size: int) -> None:
        # A picture may be coded twice, hidden and filtered first: its place is the first, its bytes are both.
        order, before = self._found.get(number, (self._count, 0))
        self._found[number] = order, before + size
        self._count += 1


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """What it takes to read frame headers; lengths in bits, 0 for a field that is absent."""

    one_still: bool
    presentation_time_bits: int
    frame_id_bits: int
    screen_content_tools: int
    integer_mv: int
    order_hint_bits: int


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """Whether the picture is shown where it is coded, and its place in display order, modulo the hint's range."""

    shown: bool
    order_hint: int


def read_sequence_header(payload: bytes) -> SequenceHeader:
    """Section 5.5 of the AV1 specification, up to the length of order hints."""
    bits = _Bits(payload)
    bits.skip(4)  # profile, still picture
    one_still = bits.flag()
    presentation_time_bits = 0
    if one_still:
        bits.skip(5)
    else:
        presentation_time_bits = _skip_operating_points(bits)
    widths = bits.number(4), bits.number(4)
    bits.skip(sum(widths) + 2)
    frame_id_bits = 0
    if not one_still and bits.flag():
        frame_id_bits = bits.number(4) + bits.number(3) + 3
    bits.skip(3)  # superblock size, intra tools
    if one_still:
        return SequenceHeader(one_still, 0, 0, _CHOSEN_BY_FRAME, _CHOSEN_BY_FRAME, 0)
    bits.skip(4)  # inter tools
    has_order_hints = bits.flag()
    bits.skip(2 if has_order_hints else 0)
    screen_content_tools = _CHOSEN_BY_FRAME if bits.flag() else bits.number(1)
    integer_mv = _CHOSEN_BY_FRAME
    if screen_content_tools and not bits.flag():
        integer_mv = bits.number(1)
    order_hint_bits = bits.number(3) + 1 if has_order_hints else 0
    return SequenceHeader(
        one_still, presentation_time_bits, frame_id_bits, screen_content_tools, integer_mv, order_hint_bits
    )


def _skip_operating_points(bits: _Bits) -> int:
    """Timing, decoder model and operating points; the bits of a frame's presentation time where frames have one."""
    has_decoder_model = equal_intervals = False
    delay_bits = presentation_time_bits = 0
    if bits.flag():
        bits.skip(64)
        equal_intervals = bits.flag()
        if equal_intervals:
            bits.skip_uvlc()
        has_decoder_model = bits.flag()
        if has_decoder_model:
            delay_bits = bits.number(5) + 1
            bits.skip(32 + 5)
            presentation_time_bits = bits.number(5) + 1
    has_display_delay = bits.flag()
    for _ in range(bits.number(5) + 1):
        bits.skip(12)
        if bits.number(5) > 7:  # the level; from 4.0 on it has a tier
            bits.skip(1)
        if has_decoder_model and bits.flag():
            bits.skip(2 * delay_bits + 1)
        if has_display_delay and bits.flag():
            bits.skip(4)
    return 0 if equal_intervals else presentation_time_bits


def read_frame_header(payload: bytes, sequence: SequenceHeader) -> FrameHeader | None:
    """Section 5.9 of the AV1 specification, up to the order hint; None where it only shows a picture coded before."""
    if sequence.one_still:
        return FrameHeader(shown=True, order_hint=0)
    bits = _Bits(payload)
    if bits.flag():
        return None
    kind, shown = bits.number(2), bits.flag()
    bits.skip(sequence.presentation_time_bits if shown else 1)
    if kind != _SWITCH and not (kind == _KEY and shown):
        bits.skip(1)  # error resilience, which the others have for certain
    bits.skip(1)
    screen_content_tools = sequence.screen_content_tools
    if screen_content_tools == _CHOSEN_BY_FRAME:
        screen_content_tools = bits.number(1)
    if screen_content_tools and sequence.integer_mv == _CHOSEN_BY_FRAME:
        bits.skip(1)
    bits.skip(sequence.frame_id_bits + (kind != _SWITCH))  # and whether it has a size of its own
    return FrameHeader(shown, bits.number(sequence.order_hint_bits))


class _Bits:
    """Reads a header bit by bit, the highest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, count: int) -> int:
        start, self._at = self._at, self._at + count
        if self._at > 8 * len(self._data):
            raise EncoderError(f"a header of {len(self._data)} bytes ends before its bit {self._at}; the stream is cut")
        first, last = start // 8, -(-self._at // 8)
        return (int.from_bytes(self._data[first:last]) >> 8 * last - self._at) & ((1 << count) - 1)

    def flag(self) -> bool:
        return bool(self.number(1))

    def skip(self, count: int) -> None:
        self.number(count)

    def skip_uvlc(self) -> None:
        """A number of as many bits as zeros stand before its first one."""
        zeros = 0
        while not self.flag():
            zeros += 1
        if zeros < 32:
            self.skip(zeros)
