"""The open bitstream units that an AV1 temporal unit is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.errors import EncoderError

if TYPE_CHECKING:
    from collections.abc import Iterator

SEQUENCE_HEADER, TEMPORAL_DELIMITER, FRAME_HEADER, TILE_GROUP, FRAME = 1, 2, 3, 4, 6


@dataclass(frozen=True, slots=True)
class Obu:
    """One open bitstream unit: its type, and where it lies; `payload` is the place after its header."""

    kind: int
    start: int
    payload: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def units(data: bytes) -> Iterator[Obu]:
    """The units of a temporal unit, in order."""
    at = 0
    while at < len(data):
        start, header = at, data[at]
        at += 2 if header & 4 else 1  # an extension byte follows the header
        if header & 0x80 or not header & 2:
            raise EncoderError(
                f"byte {start} of {len(data)} starts no bitstream unit with a size (header {header:#04x})"
            )
        length, payload = _leb128(data, at)
        at = payload + length
        if at > len(data):
            raise EncoderError(f"bitstream unit at byte {start} runs to {at}, the packet has {len(data)}")
        yield Obu(header >> 3 & 15, start, payload, at)


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 127) << 7 * i
        if not byte & 128:
            return value, at + i + 1
    raise EncoderError(f"no length at byte {at} of {len(data)}")
