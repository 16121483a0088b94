"""A little Matroska: what libavformat can hold, but PyAV has no way to say.

`av1_template` is a file of one picture from which PyAV takes all that describes an AV1 stream, HDR10 included.
`amend_tracks` writes into a finished file what the shape of pixels is, and how much sound is only for the decoder.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, BinaryIO

from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reelrl.content.read.carried import MasteringDisplay, Presentation

# Names of elements: RFC 9559.
_EBML, _SEGMENT, _INFO, _TRACKS, _TRACK, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0x1F43B675
_DOC_TYPE, _TIMESTAMP_SCALE, _TIMESTAMP, _SIMPLE_BLOCK, _VOID = 0x4282, 0x2AD7B1, 0xE7, 0xA3, 0xEC
_NUMBER, _UID, _TYPE, _CODEC, _NAME, _DELAY = 0xD7, 0x73C5, 0x83, 0x86, 0x536E, 0x56AA
_VIDEO, _WIDTH, _HEIGHT, _COLOUR, _MASTERING = 0xE0, 0xB0, 0xBA, 0x55B0, 0x55D0
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_MATRIX, _RANGE, _TRANSFER, _PRIMARIES, _MAX_CLL, _MAX_FALL = 0x55B1, 0x55B9, 0x55BA, 0x55BB, 0x55BC, 0x55BD
_FIRST_CHROMATICITY, _LUMINANCE_MAX, _LUMINANCE_MIN = 0x55D1, 0x55D9, 0x55DA

ROOM = "." * 24
"""Added to the name of a track that is amended afterwards; it makes room, and goes."""

_HEADER_BYTES = 1 << 20
_LARGEST_SIDE = 1 << 15


def av1_template(packet: bytes, width: int, height: int, presentation: Presentation) -> bytes:
    """A Matroska file of one key frame, described as the presentation says."""
    block = _element(_SIMPLE_BLOCK, b"\x81\0\0\x80" + packet)  # of track 1, at time 0, a key frame
    video = _element(_VIDEO, _whole(_WIDTH, width), _whole(_HEIGHT, height), _colour(presentation))
    track = _element(_TRACK, _whole(_NUMBER, 1), _whole(_UID, 1), _whole(_TYPE, 1), _element(_CODEC, b"V_AV1"), video)
    segment = _element(
        _SEGMENT,
        _element(_INFO, _whole(_TIMESTAMP_SCALE, 1_000_000)),
        _element(_TRACKS, track),
        _element(_CLUSTER, _whole(_TIMESTAMP, 0), block),
    )
    return _element(_EBML, _element(_DOC_TYPE, b"matroska")) + segment


@dataclass(frozen=True)
class Amendment:
    """What a track says besides: the shape of its pixels; nanoseconds of sound before its beginning."""

    aspect: Fraction | None = None
    delay_ns: int = 0


def amend_tracks(file: BinaryIO, amendments: Mapping[int, Amendment]) -> None:
    """Amend tracks, by their places in a file that libavformat wrote, where they are named with `ROOM`."""
    file.seek(0)
    tracks = list(_tracks(file.read(_HEADER_BYTES)))
    for place, amendment in amendments.items():
        if place >= len(tracks):
            raise ContentError(f"track {place} is not among the {len(tracks)} that were written; write the file again")
        fields, start, stop = tracks[place]
        body = b"".join(_amended(name, content, amendment) for name, content in fields)
        if amendment.delay_ns:
            body += _whole(_DELAY, amendment.delay_ns)
        file.seek(start)
        file.write(body + _void(stop - start - len(body)))


def has_delay(head: bytes) -> bool:
    """Whether the first track of a file says how much of its sound is only for the decoder."""
    return any(_DELAY in dict(fields) for fields, _, _ in _tracks(head))


def display_size(width: int, height: int, aspect: Fraction) -> tuple[int, int]:
    """A size of square pixels whose sides are exactly as the picture's, and near its height."""
    across, down = width * aspect.numerator, height * aspect.denominator
    common = gcd(across, down)
    times = max(1, round(height * common / down))
    exact = times * across // common, times * down // common
    return exact if max(exact) <= _LARGEST_SIDE else (round(width * aspect), height)


def _amended(name: int, content: bytes, amendment: Amendment) -> bytes:
    if name == _NAME:
        title = content.removesuffix(ROOM.encode())
        return _element(_NAME, title) if title else b""
    if name == _VIDEO and amendment.aspect is not None:
        return _reshaped(content, amendment.aspect)
    return _element(name, content)


def _reshaped(video: bytes, aspect: Fraction) -> bytes:
    fields = {key: value for key, value, _, _ in _children(video, 0, len(video))}
    across, down = display_size(int.from_bytes(fields[_WIDTH]), int.from_bytes(fields[_HEIGHT]), aspect)
    shape = (_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT)
    others = (_element(key, value) for key, value in fields.items() if key not in shape)
    return _element(_VIDEO, *others, _whole(_DISPLAY_WIDTH, across), _whole(_DISPLAY_HEIGHT, down))


def _tracks(head: bytes) -> Iterator[tuple[list[tuple[int, bytes]], int, int]]:
    """The fields of each track, and from where to where they lie."""
    for name, _, start, stop in _children(head, 0, len(head)):
        if name in (_SEGMENT, _TRACKS):
            yield from ((f, start + a, start + b) for f, a, b in _tracks(head[start:stop]))
        elif name == _TRACK:
            yield [(key, value) for key, value, _, _ in _children(head, start, stop)], start, stop


def _children(data: bytes, at: int, end: int) -> Iterator[tuple[int, bytes, int, int]]:
    """Elements side by side: name, content, and from where to where the content lies; the last may be cut short."""
    while at + 2 <= end and data[at]:
        length = 9 - data[at].bit_length()
        name = int.from_bytes(data[at : at + length])
        at += length
        if at >= end or not data[at]:
            return
        length = 9 - data[at].bit_length()
        size = int.from_bytes(data[at : at + length]) & (1 << 7 * length) - 1
        start = at + length
        at = min(start + size, end)
        yield name, data[start:at], start, at


def _colour(shown: Presentation) -> bytes:
    fields = [
        _whole(_MATRIX, shown.matrix),
        _whole(_TRANSFER, shown.transfer),
        _whole(_PRIMARIES, shown.primaries),
        _whole(_RANGE, shown.color_range),
    ]
    if shown.light is not None:
        fields += [_whole(_MAX_CLL, shown.light[0]), _whole(_MAX_FALL, shown.light[1])]
    if shown.mastering is not None:
        fields.append(_mastering(shown.mastering))
    return _element(_COLOUR, *fields)


def _mastering(screen: MasteringDisplay) -> bytes:
    places = (*screen.red, *screen.green, *screen.blue, *screen.white)
    fields = [_real(_FIRST_CHROMATICITY + i, value) for i, value in enumerate(places)]
    least, most = screen.luminance
    return _element(_MASTERING, *fields, _real(_LUMINANCE_MAX, most), _real(_LUMINANCE_MIN, least))


def _element(name: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return name.to_bytes((name.bit_length() + 7) // 8) + _size(len(body)) + body


def _size(size: int) -> bytes:
    length = next(length for length in range(1, 9) if size < (1 << 7 * length) - 1)
    return (size | 1 << 7 * length).to_bytes(length)


def _whole(name: int, value: int) -> bytes:
    return _element(name, value.to_bytes(max(1, (value.bit_length() + 7) // 8)))


def _real(name: int, value: float) -> bytes:
    return _element(name, struct.pack(">d", value))


def _void(room: int) -> bytes:
    """An element of exactly so many bytes that readers skip."""
    if room < 2:
        raise ContentError(
            f"{room} bytes of room for the shape of pixels, 2 or more are needed; shorten the video's title"
        )
    return bytes([_VOID, 0x80 | room - 2]) + bytes(room - 2)
