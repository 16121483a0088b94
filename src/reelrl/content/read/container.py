"""Compressed video files, decoded by PyAV from the first frame to the last."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import av
import numpy as np
from numpy.typing import NDArray

from reelrl.content.frame import Frame
from reelrl.content.read.timing import Timing
from reelrl.content.read.uncompressed import (
    check_plain_file,
    conversion_command,
    interlaced,
    refuse_format,
    refuse_odd_size,
)
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from av.container import InputContainer
    from av.video.stream import VideoStream

READABLE = {"yuv420p": 8, "yuvj420p": 8, "yuv420p10le": 10}
"""Pixel formats that are read as they are, with the bits of a sample."""
_INTERLACED = (2, 3, 4, 5)  # FFmpeg's orders of fields; 0 is unknown, 1 progressive
_TIME = re.compile(r"(?P<hours>[0-9]{1,5}):(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{1,2}(\.[0-9]*)?)")


@dataclass(frozen=True, eq=False)
class _Index:
    """What one walk over the packets found; nothing is decoded for it.

    `times` are those of all pictures in display order, `keys` the numbers of key frames; empty where the file does
    not say, or says it twice: then every pass begins at the first frame.
    """

    present: int
    missing: int
    timing: Timing | None  # None where packets carry no times
    times: NDArray[np.int64]
    keys: NDArray[np.int64]

    @property
    def frame_count(self) -> int:
        return self.present + self.missing

    def key_before(self, number: int) -> int:
        """The last key frame up to a frame; 0 where none is known."""
        before = int(np.searchsorted(self.keys, number, side="right"))
        return int(self.keys[before - 1]) if before else 0


_PLAYLIST = b"#EXTM3U"


def open_container(path: Path) -> InputContainer:
    """A file that PyAV reads; it may hold texts that are not UTF-8."""
    check_plain_file(path)
    try:
        with path.open("rb") as file:
            if file.read(len(_PLAYLIST)) == _PLAYLIST:
                raise ContentError(f"{path} is a playlist, which names files elsewhere; name the video itself")
        return av.open(str(path), mode="r", metadata_errors="replace")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise ContentError(
            f"{path} is not a video that can be opened ({_reason(error)}): it is damaged, cut short, or of another "
            "kind; try to play it, or copy it again"
        ) from error


def video_stream(path: Path, container: InputContainer) -> VideoStream:
    """The first stream of pictures; one attached picture, as cover art is, makes no video."""
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            return stream
    kinds = ", ".join("cover picture" if stream.type == "video" else stream.type for stream in container.streams)
    raise ContentError(f"{path} holds no video ({kinds or 'nothing'} found); name another file")


def frame_of(picture: av.VideoFrame) -> Frame:
    """A copy of a decoded picture in one of the readable formats."""
    frame = Frame.empty(picture.width, picture.height, READABLE[picture.format.name])
    for target, plane in zip(frame.planes, picture.planes, strict=True):
        stored = np.frombuffer(memoryview(plane), target.dtype).reshape(-1, plane.line_size // target.itemsize)
        target[...] = stored[: plane.height, : plane.width]
    return frame


class ContainerVideo:
    """The first video stream of a file; decoded on one thread, so that many readers do not crowd the machine.

    `convert_420` makes 4:2:0 of 4:2:2 and 4:4:4, and 10 bits of 12, which are refused otherwise.
    """

    def __init__(self, path: Path, *, convert_420: bool = False) -> None:
        self.path = path
        self._convert = convert_420
        with self._open() as container:
            stream = self._stream(container)
            context = stream.codec_context
            if context is None:
                raise self._no_decoder()
            self.width, self.height = context.width, context.height
            rate = stream.average_rate or stream.guessed_rate
            self._stored_rate = Fraction(rate) if rate else None
            self.depth = READABLE[self._readable(context.pix_fmt)]
            if context.field_order in _INTERLACED:
                raise interlaced(path, 0)
            refuse_odd_size(path, self.width, self.height, self.depth)

    @property
    def frame_count(self) -> int:
        return self._index.frame_count

    @property
    def fps(self) -> Fraction | None:
        """Frames per second; on average where the rate varies."""
        return self._index.timing.rate(self._stored_rate) if self._index.timing else self._stored_rate

    @property
    def timing(self) -> Timing | None:
        """When each picture is shown; None where the file does not say."""
        return self._index.timing

    def frames(self, start: int) -> Iterator[Frame]:
        number = self._index.key_before(start)
        for picture in self._decode_from(number):
            if number >= start:
                yield self._copy(picture, number)
            number += 1
        if number != self.frame_count:
            self._raise_cut(number)

    def _open(self) -> InputContainer:
        return open_container(self.path)

    def _stream(self, container: InputContainer) -> VideoStream:
        return video_stream(self.path, container)

    def _readable(self, pixel_format: str | None) -> str:
        """The format to read pictures in: their own, or the one to convert them to."""
        if pixel_format is None:
            raise self._no_decoder()
        if pixel_format in READABLE:
            return pixel_format
        form = av.VideoFormat(pixel_format, 16, 16)
        # RGB is left alone: which matrix it should be converted by is for its owner to say.
        convertible = not form.is_rgb and not form.has_palette
        deep = max(component.bits for component in form.components) > 8
        if not (self._convert and convertible):
            raise refuse_format(self.path, pixel_format, 10 if deep else 8, convertible=convertible)
        if pixel_format.startswith("yuvj"):
            return "yuvj420p"  # any other would change the range as well
        return "yuv420p10le" if deep else "yuv420p"

    def _no_decoder(self) -> ContentError:
        return ContentError(
            f"{self.path}: no decoder for its video; convert it with\n  {conversion_command(self.path)}"
        )

    def _decode_from(self, key: int) -> Iterator[av.VideoFrame]:
        """Pictures from a key frame on; where the file's index leads elsewhere, it is decoded up to there."""
        if key:
            pictures = self._decode(key)
            try:
                first = next(pictures, None)
            except ContentError:
                first = None
            if first is not None and first.pts == self._index.times[key]:
                yield first
                yield from pictures
                return
        yield from islice(self._decode(), key, None)

    def _decode(self, key: int = 0) -> Iterator[av.VideoFrame]:
        """Pictures in display order, from a key frame on."""
        since = int(self._index.times[key]) if key else None
        with self._open() as container:
            stream = self._stream(container)
            stream.codec_context.thread_count = 1
            delivered = key
            try:
                if since is not None:
                    container.seek(since, stream=stream)
                for packet in container.demux(stream):
                    # The last, empty packet drains the decoder. In a file cut short the pictures that come out then may
                    # have lost earlier neighbours (reordering), so they are not given out.
                    if packet.size == 0 and self._index.missing:
                        break
                    for picture in stream.codec_context.decode(packet if packet.size else None):
                        # Shown before the key frame and coded after it: what it was predicted from is not here.
                        if since is not None and (picture.pts is None or picture.pts < since):
                            continue
                        if picture.is_corrupt:
                            raise av.error.InvalidDataError(0, "the decoder marked it as corrupt")
                        delivered += 1
                        yield picture
            except av.FFmpegError as error:
                raise ContentError(
                    f"{self.path}: frame {delivered} of {self.frame_count} cannot be decoded ({_reason(error)}); the "
                    "file is damaged: copy it again" + (f", or use its first {delivered} frames" if delivered else "")
                ) from error

    def _copy(self, picture: av.VideoFrame, number: int) -> Frame:
        if (picture.width, picture.height) != (self.width, self.height):
            raise ContentError(
                f"{self.path}: frame {number} is {picture.width}x{picture.height}, the clip began with "
                f"{self.width}x{self.height}; split the file there or scale it to one size"
            )
        form = self._readable(picture.format.name)
        if READABLE[form] != self.depth:
            raise ContentError(
                f"{self.path}: frame {number} has {READABLE[form]} bits, the clip began with {self.depth}; split the "
                "file there"
            )
        if picture.interlaced_frame:
            raise interlaced(self.path, number)
        return frame_of(picture if form == picture.format.name else picture.reformat(format=form))

    def _raise_cut(self, delivered: int) -> None:
        count = self.frame_count
        if self._index.missing:
            why = f"the file is cut short: its header promises {count} frames, {self._index.present} are there"
        else:
            why = f"the decoder gave {delivered} pictures for {count} packets"
        raise ContentError(
            f"{self.path}: frame {delivered} of {count} is missing; {why}: copy the file again, or rewrite it with\n"
            f"  {conversion_command(self.path)}"
        )

    @cached_property
    def _index(self) -> _Index:
        present = dropped = 0
        times: list[tuple[int, int]] = []
        keys: list[int] = []
        with self._open() as container:
            stream = self._stream(container)
            promised, promised_s = stream.frames, _promised_s(container, stream)
            try:
                for packet in container.demux(stream):
                    if packet.size == 0:
                        continue
                    present += 1
                    dropped += packet.is_discard  # an edit list hides it
                    if packet.pts is not None and not packet.is_discard:
                        times.append((packet.pts, packet.duration or 0))
                        if packet.is_keyframe:
                            keys.append(packet.pts)
            except av.FFmpegError as error:
                raise ContentError(f"{self.path}: cannot be read after frame {present} ({_reason(error)})") from error
            timing = None
            if times and len(times) == present - dropped and stream.time_base:
                timing = Timing.from_packets(stream.time_base, [start for start, _ in times], max(times)[1])
        missing = max(0, promised - present)
        rate, end_s = self._stored_rate, timing.end_s if timing else 0.0
        if not promised and rate and (promised_s - end_s) * rate > 1.5:
            missing = round((promised_s - end_s) * rate)
        whole = present - dropped
        return _Index(whole, missing, timing, *_numbered([start for start, _ in times], keys, whole, missing))


def _numbered(times: list[int], keys: list[int], present: int, missing: int) -> tuple[NDArray[np.int64], ...]:
    """Times in display order, and the numbers of key frames; both empty where no frame can be found by its time."""
    in_order = np.unique(np.array(times, np.int64))
    if missing or len(in_order) != present:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return in_order, np.searchsorted(in_order, np.unique(np.array(keys, np.int64)))


def _promised_s(container: InputContainer, stream: VideoStream) -> float:
    """How long the header says the video lasts, in seconds; 0 where it does not say.

    Matroska knows no frame count, but a duration: of the stream in a tag, of the whole file in its header.
    """
    tag = _TIME.fullmatch(stream.metadata.get("DURATION", ""))
    if tag:
        return int(tag["hours"]) * 3600 + int(tag["minutes"]) * 60 + float(tag["seconds"])
    if container.duration and len(container.streams) == 1:
        return float(container.duration / av.time_base)
    return 0.0


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
