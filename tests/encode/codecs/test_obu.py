"""Laws of the bitstream parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode.codecs.obu import FRAME, SEQUENCE_HEADER, TEMPORAL_DELIMITER, units
from reelrl.errors import EncoderError
from tests.encode.makers import STRUCTURES, coded, scene, settings_for


def leb128(value: int, padding: int = 0) -> bytes:
    """A length as AV1 writes it; `padding` adds bytes that carry nothing, which the format allows."""
    digits = [value & 127]
    while value := value >> 7:
        digits.append(value & 127)
    digits += [0] * padding
    return bytes([digit | 128 for digit in digits[:-1]] + [digits[-1]])


def unit(kind: int, payload: bytes, *, extension: bool = False, padding: int = 0) -> bytes:
    header = bytes([kind << 3 | 2 | (4 if extension else 0)]) + (b"\x00" if extension else b"")
    return header + leb128(len(payload), padding) + payload


made_units = st.builds(
    unit,
    st.integers(0, 15),
    st.binary(max_size=300),
    extension=st.booleans(),
    padding=st.integers(0, 4),
)


@given(st.lists(made_units, max_size=8))
def test_units_put_together_are_found_again(parts: list[bytes]) -> None:
    data = b"".join(parts)
    found = list(units(data))
    assert [data[u.start : u.stop] for u in found] == parts
    assert all(
        data[u.payload : u.stop] == part[len(part) - (u.stop - u.payload) :]
        for u, part in zip(found, parts, strict=True)
    )
    assert [u.kind for u in found] == [part[0] >> 3 for part in parts]
    assert sum(u.size for u in found) == len(data)


@given(st.lists(made_units, min_size=1, max_size=5), st.data())
def test_a_cut_inside_a_unit_is_an_error(parts: list[bytes], draw: st.DataObject) -> None:
    data = b"".join(parts)
    last = len(parts[-1])
    lost = draw.draw(st.integers(1, last - 1))
    with pytest.raises(EncoderError, match=r"of \d+|the packet has"):
        list(units(data[:-lost]))


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_to_their_end_or_refused(data: bytes) -> None:
    try:
        found = list(units(data))
    except EncoderError:
        return
    assert sum(u.size for u in found) == len(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x00", r"byte 0 of 2 starts no bitstream unit with a size \(header 0x80\)"),
        (b"\x10\x00", r"starts no bitstream unit with a size \(header 0x10\)"),
        (b"\x12\x05ab", "bitstream unit at byte 0 runs to 7, the packet has 4"),
        (b"\x12" + b"\xff" * 9, "no length at byte 1 of 10"),
        (b"\x12", "no length at byte 1 of 1"),
    ],
)
def test_what_is_no_unit_is_named_by_its_place(data: bytes, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        list(units(data))


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_real_packets_begin_with_a_delimiter_and_the_first_with_a_sequence_header(backend: str, structure: str) -> None:
    clip = scene("street", 9)
    packets = coded(clip, settings_for(clip, backend, structure))
    kinds = [[u.kind for u in units(packet.data)] for packet in packets]
    assert {found[0] for found in kinds} == {TEMPORAL_DELIMITER}
    assert kinds[0][1] == SEQUENCE_HEADER
    assert sum(found.count(FRAME) for found in kinds) == clip.frame_count
