"""AV1 packets, and all that their source carries, into a file that players open.

    packets, Carried ──► mux ──► .mp4 .webm .mkv        streams copied, times and colours as they were

What is written is read again: whatever did not arrive is said.
"""

from __future__ import annotations

import io
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import av

from reelrl.content.read.container import open_container
from reelrl.content.read.timing import Timing
from reelrl.content.write.arrival import not_arrived
from reelrl.content.write.copies import Copies, describe, tracks
from reelrl.content.write.matroska import ROOM, Amendment, amend_tracks, av1_template
from reelrl.content.write.output_file import OutputFile
from reelrl.errors import ContentError
from reelrl.storage.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from av.container import OutputContainer
    from av.stream import Stream

    from reelrl.content.read.carried import Carried

_BITEXACT = {"fflags": "+bitexact"}  # added to its other flags, which change packets where a container needs it
_OPTIONS: dict[str, dict[str, str]] = {
    "mp4": {},
    # Without checksums tracks can be amended afterwards.
    "matroska": {"default_mode": "passthrough", "write_crc32": "0"},
    "webm": {"default_mode": "passthrough", "write_crc32": "0"},
}
_SEQUENCE_HEADER = 1
_FASTEST_CLOCK = 10**6


def mux(
    path: Path, packets: Iterator[bytes], kind: str, width: int, height: int, fps: Fraction, carried: Carried
) -> list[str]:
    """Write packets, each of which shows one picture, as a container of that kind; returns what was left out.

    The same packets and the same source give the same file, byte for byte. Memory does not grow with the file.
    """
    first = next(packets)
    with atomic_path(path) as temporary:
        file = OutputFile(temporary)
        try:
            muxer = _Muxer(file, kind, width, height, fps, carried)
            with file.failures():
                written = muxer.write(first, packets)
                file.close()
        except (av.FFmpegError, OverflowError) as error:
            advice = "are these AV1 packets?" if carried.path is None else "try it with the video alone (--video-only)"
            raise ContentError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}; {advice}") from error
        finally:
            file.give_up()
        lost = not_arrived(temporary, carried, kind, written.copied)
    return [*carried.not_carried, *written.left_out, *lost]


class Written(NamedTuple):
    """What was left out, one line each, and the numbers of the source's streams that were not."""

    left_out: list[str]
    copied: list[int]


class _Muxer:
    """One file under construction."""

    def __init__(self, file: OutputFile, kind: str, width: int, height: int, fps: Fraction, carried: Carried) -> None:
        self._file, self._kind, self._size, self._fps, self._carried = file, kind, (width, height), fps, carried
        self._timing = carried.timing or Timing.constant(fps)
        self._reshape = kind != "mp4" and carried.presentation.aspect != 1

    def write(self, first: bytes, packets: Iterator[bytes]) -> Written:
        template = av1_template(first, *self._size, self._carried.presentation)
        options = _BITEXACT | _OPTIONS[self._kind]
        if self._kind == "mp4" and 1000 <= (clock := self._timing.time_base.denominator) <= _FASTEST_CLOCK:
            options["movie_timescale"] = str(clock)  # in which it says when streams begin; 1000 would round it
        with ExitStack() as stack:
            described = stack.enter_context(av.open(io.BytesIO(template), "r", format="matroska"))
            target = av.open(self._file, "w", format=self._kind, container_options=options, metadata_errors="replace")
            try:
                copies = self._write(target, described.streams.video[0], first, packets, stack)
                amendments = copies.amendments() if copies else {}
                if self._reshape:
                    amendments[tracks(target).index(self._stream)] = Amendment(self._carried.presentation.aspect)
                target.close()
                self._file.check()
            except BaseException:
                self._file.give_up()  # PyAV then adds nothing to it
                target.close()
                raise
            written = Written(copies.left_out + copies.notes(), copies.copied) if copies else Written([], [])
        if amendments:
            amend_tracks(self._file, amendments)
        return written

    def _write(
        self, target: OutputContainer, template: Any, first: bytes, packets: Iterator[bytes], stack: ExitStack
    ) -> Copies | None:
        copies = None
        if self._carried.path is None:
            self._add_video(target, template, None)
        else:
            source = stack.enter_context(open_container(self._carried.path))
            copies = Copies(
                source, target, self._kind, self._carried, lambda stream: self._add_video(target, template, stream)
            )
        target.start_encoding()
        pictures = self._pictures(first, packets)
        waiting = next(pictures, None)
        for time_s, copy, packet in copies.packets() if copies else ():
            while waiting is not None and waiting[0] <= time_s:
                target.mux_one(waiting[1])
                waiting = next(pictures, None)
            try:
                target.mux_one(packet)
            except av.FFmpegError:
                copy.broken += 1
            self._file.check()
        while waiting is not None:
            target.mux_one(waiting[1])
            waiting = next(pictures, None)
        return copies

    def _add_video(self, target: OutputContainer, template: Any, source: Stream | None) -> None:
        shown = self._carried.presentation
        stream = target.add_stream_from_template(template, opaque=True)
        # Mp4 counts a sample's duration in 32 bits.
        fast = self._kind == "mp4" and self._timing.time_base.denominator > _FASTEST_CLOCK
        stream.time_base = Fraction(1, _FASTEST_CLOCK) if fast else self._timing.time_base
        if self._timing.is_constant(self._fps):
            stream.codec_context.framerate = self._fps
        if shown.aspect != 1:
            stream.codec_context.sample_aspect_ratio = shown.aspect
        if shown.display_matrix is not None:
            stream.set_display_matrix(shown.display_matrix)
        if source is None:
            stream.disposition = av.stream.Disposition.default
        else:
            describe(stream, source, self._kind)
        if self._reshape:
            stream.metadata["title"] = stream.metadata.get("title", "") + ROOM
        self._stream = stream

    def _pictures(self, first: bytes, packets: Iterator[bytes]) -> Iterator[tuple[float, av.Packet[Any]]]:
        """Packets of the video with their times in seconds."""
        timing = self._timing
        data: bytes | None = first
        number = 0
        while data is not None:
            if number >= len(timing.starts):
                raise ContentError(
                    f"packet {number} has no time: the source shows {len(timing.starts)} pictures; encode it again"
                )
            packet = av.Packet(data)
            packet.stream, packet.time_base = self._stream, timing.time_base
            packet.pts = packet.dts = timing.starts[number]
            packet.duration = timing.duration(number)
            packet.is_keyframe = begins_with_sequence_header(data)
            yield float(packet.pts * timing.time_base), packet
            self._file.check()
            data = next(packets, None)
            number += 1


def begins_with_sequence_header(unit: bytes) -> bool:
    """Whether decoding can begin at a temporal unit: the encoders repeat the header at key frames, and only there."""
    return len(unit) > 2 and unit[2] >> 3 & 15 == _SEQUENCE_HEADER
