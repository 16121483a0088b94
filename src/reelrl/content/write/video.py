"""Frames and AV1 packets into files.

    frames  ──► Y4mWriter, write_video            .y4m .yuv
    packets ──► IvfWriter, write_bitstream        .ivf .mp4 .webm .mkv, with what the source carries

Every file appears under its name only when it is complete: an interrupted run leaves the old file, or none.
A packet is one AV1 temporal unit: the bytes that show one frame, in display order.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from reelrl.content.frame import check_depth, check_size
from reelrl.content.read.uncompressed import depth_from_name
from reelrl.errors import ConfigError, ContentError
from reelrl.names import did_you_mean
from reelrl.storage.files import atomic_path, explain_os_error, refuse_overwriting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from reelrl.content.clip import Clip
    from reelrl.content.frame import Frame
    from reelrl.content.read.carried import Carried

IVF_HEADER = struct.Struct("<4sHH4sHHIIII")  # magic, version, header size, codec, width, height, rate, scale, frames, 0
IVF_PACKET = struct.Struct("<IQ")  # bytes, display number
CONTAINERS = {".mp4": "mp4", ".webm": "webm", ".mkv": "matroska"}


class FileWriter:
    """A binary file under construction: `close` puts it in place; an error or `abort` leaves what was there before."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        temporary = self._stack.enter_context(atomic_path(path))
        try:
            self._file: BinaryIO = self._stack.enter_context(temporary.open("wb"))
        except OSError as error:
            self._fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def close(self) -> None:
        """Finish the file and put it in place; a second call does nothing."""
        if not self._file.closed:
            try:
                self._finish()
            except OSError as error:
                self._fail(error)
        self._stack.close()

    def abort(self) -> None:
        """Throw away what was written."""
        with suppress(ContentError, _AbortedError):
            self._stack.__exit__(_AbortedError, _AbortedError(), None)

    def _write(self, *parts: bytes | memoryview) -> None:
        if self._file.closed:
            raise ContentError(f"{self.path} is already complete; open a new writer for more")
        try:
            for part in parts:
                self._file.write(part)
        except OSError as error:
            self._fail(error)

    def _finish(self) -> None:
        """What the format needs at the end."""

    def _fail(self, error: OSError) -> None:
        # atomic_path removes its temporary file and raises ContentError in place of the error.
        self._stack.__exit__(type(error), error, error.__traceback__)
        raise error


class _AbortedError(Exception):
    """Tells atomic_path to give up."""


class Y4mWriter(FileWriter):
    """Writes frames of one size and depth as YUV4MPEG2."""

    def __init__(self, path: str | Path, width: int, height: int, fps: Fraction | int, depth: int = 8) -> None:
        check_size(width, height)
        check_depth(depth)
        self.width, self.height, self.depth = width, height, depth
        rate, chroma = Fraction(fps), "420mpeg2" if depth == 8 else "420p10"
        super().__init__(path)
        self._write(f"YUV4MPEG2 W{width} H{height} F{rate.numerator}:{rate.denominator} Ip A1:1 C{chroma}\n".encode())

    def write(self, frame: Frame) -> None:
        _check_frame(frame, self)
        self._write(b"FRAME\n", frame.data.data)


class RawWriter(FileWriter):
    """Writes frames of one size and depth one after the other, nothing else; both belong into the name."""

    def __init__(self, path: str | Path, width: int, height: int, depth: int = 8) -> None:
        check_size(width, height)
        check_depth(depth)
        self.width, self.height, self.depth = width, height, depth
        super().__init__(path)

    def write(self, frame: Frame) -> None:
        _check_frame(frame, self)
        self._write(frame.data.data)


class IvfWriter(FileWriter):
    """Writes packets as IVF; the header's frame count is right once the file is closed."""

    def __init__(self, path: str | Path, width: int, height: int, fps: Fraction | int, fourcc: str = "AV01") -> None:
        check_size(width, height)
        self._header = (width, height, Fraction(fps), fourcc)
        self.frame_count = 0
        super().__init__(path)
        self._write(_ivf_header(*self._header, 0))

    def write(self, packet: bytes, display_number: int | None = None) -> None:
        """Add the packet that shows frame `display_number`, by default the next one."""
        number = self.frame_count if display_number is None else display_number
        self._write(IVF_PACKET.pack(len(packet), number), packet)
        self.frame_count += 1

    def _finish(self) -> None:
        if self._file.seekable():
            self._file.seek(0)
            self._file.write(_ivf_header(*self._header, self.frame_count))


class IvfReader:
    """The packets of an IVF file, in order, anew on each iteration."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                start = file.read(IVF_HEADER.size)
        except OSError as error:
            raise ContentError(explain_os_error(error, path, "read")) from error
        if len(start) < IVF_HEADER.size or start[:4] != b"DKIF":
            raise ContentError(f"{path} is not IVF: it begins with {start[:4]!r}, not b'DKIF'; name another file")
        _, _, self._first, fourcc, self.width, self.height, rate, scale, self._promised, _ = IVF_HEADER.unpack(start)
        self.fourcc = fourcc.decode("latin-1")
        self.fps = Fraction(rate, scale) if rate and scale else Fraction(30)

    def __iter__(self) -> Iterator[bytes]:
        """Whole packets; one that is cut short, or fewer than the header promises, raises after them."""
        number = 0
        with self.path.open("rb") as file:
            file.seek(self._first)
            while head := file.read(IVF_PACKET.size):
                size = IVF_PACKET.unpack(head)[0] if len(head) == IVF_PACKET.size else -1
                packet = file.read(max(0, size))
                if len(packet) != size:
                    self._refuse(number, f"{len(head) + len(packet)} bytes are left of it")
                yield packet
                number += 1
        # A writer that was killed leaves a 0 there: no promise at all.
        if number < self._promised:
            self._refuse(number, "the file ends before it")

    def _refuse(self, number: int, why: str) -> None:
        count = max(self._promised, number + 1)
        raise ContentError(f"{self.path}: packet {number} of {count} is cut short ({why}); write the file again")


def write_video(path: str | Path, clip: Clip) -> None:
    """Write a clip's frames as .y4m or raw .yuv, chosen by the suffix."""
    refuse_overwriting(path, *clip.files)
    with _frame_writer(Path(path), clip) as writer:
        for frame in clip:
            writer.write(frame)


def write_bitstream(
    path: str | Path,
    packets: Iterable[bytes],
    width: int,
    height: int,
    fps: Fraction | int,
    carried: Carried | None = None,
) -> list[str]:
    """Write AV1 packets as a file that players open: .ivf, .mp4, .webm or .mkv, chosen by the suffix.

    With `carried`, what the source holds besides its pixels goes along; returns what the container cannot hold, one
    line each. The same packets give the same file, byte for byte. They are read as they are written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix != ".ivf" and suffix not in CONTAINERS:
        raise ConfigError(f"{path}: unknown kind of file{did_you_mean(suffix, ['.ivf', *CONTAINERS])}")
    check_size(width, height)
    stream = iter(packets)
    first = next(stream, None)
    if first is None:
        raise ContentError(f"no packets to write to {path}; encode at least one frame")
    stream = chain([first], stream)
    if suffix == ".ivf":
        return _write_ivf(path, stream, width, height, Fraction(fps), carried)
    from reelrl.content.read.carried import Carried
    from reelrl.content.write.muxer import mux

    return mux(path, stream, CONTAINERS[suffix], width, height, Fraction(fps), carried or Carried())


def _write_ivf(
    path: Path, packets: Iterator[bytes], width: int, height: int, fps: Fraction, carried: Carried | None
) -> list[str]:
    timing = carried.timing if carried is not None else None
    # Its header knows a rate and nothing else; where times are not at a rate, the rate is their unit's.
    plain = timing is None or (timing.is_constant(fps) and timing.starts[0] == 0)
    with IvfWriter(path, width, height, fps if timing is None or plain else 1 / timing.time_base) as writer:
        for number, packet in enumerate(packets):
            writer.write(packet, number if timing is None or plain else timing.starts[number])
    if carried is None:
        return []
    from reelrl.content.write.arrival import left_out_of_ivf

    return left_out_of_ivf(carried)


def _ivf_header(width: int, height: int, fps: Fraction, fourcc: str, frame_count: int) -> bytes:
    code = fourcc.encode()
    rate, scale = fps.numerator, fps.denominator
    return IVF_HEADER.pack(b"DKIF", 0, IVF_HEADER.size, code, width, height, rate, scale, frame_count, 0)


def _frame_writer(path: Path, clip: Clip) -> Y4mWriter | RawWriter:
    suffix = path.suffix.lower()
    if suffix == ".y4m":
        return Y4mWriter(path, clip.width, clip.height, clip.fps, clip.depth)
    if suffix == ".yuv":
        if depth_from_name(path) != clip.depth:
            raise ConfigError(
                f"{path} would be read as {depth_from_name(path)} bits, {clip.name} has {clip.depth}: the name of a "
                "raw file tells its depth, as in film_352x288_10bit.yuv"
            )
        return RawWriter(path, clip.width, clip.height, clip.depth)
    raise ConfigError(f"{path}: unknown kind of file{did_you_mean(suffix, ['.y4m', '.yuv'])}")


def _check_frame(frame: Frame, file: Y4mWriter | RawWriter) -> None:
    if (frame.width, frame.height) != (file.width, file.height):
        raise ContentError(
            f"frame is {frame.width}x{frame.height}, the file is {file.width}x{file.height}; scale the frame first"
        )
    if frame.depth != file.depth:
        raise ContentError(f"frame has {frame.depth} bits, the file {file.depth}; write frame.at_depth({file.depth})")
