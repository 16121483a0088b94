"""The streams of a file beside its video, copied into another: packets bit for bit, plain text subtitles converted."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import av

from reelrl.content.read.container import open_container, video_stream
from reelrl.content.write.matroska import ROOM, Amendment, has_delay
from reelrl.content.write.subtitles import KIND_IN, PLAIN, Conversion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from av.container import InputContainer, OutputContainer
    from av.stream import Stream

    from reelrl.content.read.carried import Carried

_LONGEST_DELAY_S = 0.1  # that a decoder of sound takes to begin: no more than some packets
_COVER = av.stream.Disposition.attached_pic
_UNORDERED = {"1 channels": "mono", "2 channels": "stereo"}  # where a container counts channels, and mp4 wants names
_COVER_TYPES = {"mjpeg": "jpg", "png": "png", "bmp": "bmp", "gif": "gif", "webp": "webp"}

# What a file says about its own bytes, which are others afterwards.
_OF_THE_FILE = {"major_brand", "minor_version", "compatible_brands", "encoder", "duration"}
_OF_THE_STREAM = {"duration", "encoder", "vendor_id", "bps", "number_of_frames", "number_of_bytes"}


def file_tags(tags: dict[str, str]) -> dict[str, str]:
    """Those of a file's tags that are as true of another file."""
    return {key: value for key, value in tags.items() if key.lower() not in _OF_THE_FILE}


def stream_tags(tags: dict[str, str]) -> dict[str, str]:
    """Those of a stream's tags that do not speak of its bytes."""
    return {
        key: value
        for key, value in tags.items()
        if key.lower().partition("-")[0] not in _OF_THE_STREAM and not key.startswith("_STATISTICS")
    }


def codec_of(stream: Stream) -> str:
    """The name of a stream's codec; of one that nobody knows, none."""
    context: Any = stream.codec_context
    return context.codec.canonical_name if context is not None else getattr(stream, "name", None) or ""


def label(stream: Stream) -> str:
    """What people call a stream: "audio 2 (aac, deu)"."""
    codec = codec_of(stream)
    if stream.disposition & _COVER:
        return f"cover picture ({codec})"
    if stream.type == "attachment":
        return f"attachment {stream.name or '?'}"
    alike = [other for other in stream.container.streams if other.type == stream.type]
    details = [text for text in (codec, stream.metadata.get("language")) if text]
    return f"{stream.type} {alike.index(stream) + 1} ({', '.join(details) or 'unknown'})"


class Copy:
    """One stream on its way.

    broken    packets that the target refused
    moved     packets with times that went backwards
    delay_ns  sound before time zero, for the decoder alone; Matroska counts from its beginning and says how much it is
    """

    def __init__(
        self, source: Stream, stream: Stream, conversion: Conversion | None = None, *, delayed: bool = False
    ) -> None:
        self.source, self.stream = source, stream
        self.broken = self.moved = self.delay_ns = 0
        self._conversion = conversion
        self.delayed = delayed
        self._delay: int | None = None  # ticks
        self._next: int | None = None  # earliest time of the next packet

    def prepare(self, packet: av.Packet[Any], shift: int) -> av.Packet[Any] | None:
        """The packet for the target, `shift` ticks later; None where nothing is to be written."""
        if self.delayed:
            if packet.is_discard and (packet.pts or 0) * packet.time_base < -_LONGEST_DELAY_S:
                return None  # an edit list hides it, and it is too early to be of use to what is heard
            if self._delay is None:
                self._delay = max(0, -(packet.pts or 0) - shift)
                self.delay_ns = round(self._delay * packet.time_base * 10**9)
            shift += self._delay
        dts = packet.dts if packet.dts is not None else packet.pts
        if dts is None:
            dts = (self._next or 0) - shift
        pts = packet.pts if packet.pts is not None else dts
        # Subtitles may begin together; of others a container holds one at a time, and coarse clocks give two the same.
        apart = int(self.source.type != "subtitle")
        if self._next is not None and dts + shift < self._next:
            self.moved += dts + shift < self._next - apart
            dts = self._next - shift
            pts = max(pts, dts)
        packet.pts, packet.dts = pts + shift, dts + shift
        self._next = packet.dts + apart
        if self._conversion is not None:
            try:
                return self._conversion.packet(packet)
            except av.FFmpegError:
                self.broken += 1
                return None
        packet.stream = self.stream
        return packet

    def notes(self) -> Iterator[str]:
        """What was not copied as it was, one line each."""
        if self.broken:
            yield f"{label(self.source)}: {self.broken} broken packets"
        if self.moved:
            yield f"{label(self.source)}: times of {self.moved} packets, which went backwards"


class Copies:
    """All streams of a file but its video, added to a target in their order.

    `left_out` says what the target cannot hold, one line each.
    """

    def __init__(
        self,
        source: InputContainer,
        target: OutputContainer,
        kind: str,
        carried: Carried,
        add_video: Callable[[Stream], Any],
    ) -> None:
        assert carried.path is not None  # noqa: S101 - or there is no source
        self._source, self._target, self._kind, self._carried = source, target, kind, carried
        self._copies: dict[int, Copy] = {}
        self.left_out: list[str] = []
        main = video_stream(carried.path, source)
        self._main = main.index
        for stream in source.streams:
            if stream.index == main.index:
                add_video(stream)
            elif not self._add(stream):
                self.left_out.append(f"{label(stream)}: {why_not(kind, stream)}")
        target.metadata.update(file_tags(source.metadata))
        target.set_chapters(self._chapters())

    def packets(self) -> Iterator[tuple[float, Copy, av.Packet[Any]]]:
        """What is to be written, with its time in seconds, in the order of the source."""
        streams = [copy.source for copy in self._copies.values()]
        timing = self._carried.timing
        end_s = timing.end_s if timing is not None and self._carried.ends_early else float("inf")
        for packet in self._source.demux(streams) if streams else ():
            if packet.size == 0 and packet.dts is None:  # it only says that the stream has ended
                continue
            copy = self._copies[packet.stream.index]
            time_base = packet.time_base
            ready = copy.prepare(packet, -round(self._carried.origin_s / time_base))
            if ready is not None and (time_s := float((ready.dts or 0) * time_base)) < end_s:
                yield time_s, copy, ready

    @property
    def copied(self) -> list[int]:
        """Numbers of the source's streams that the target holds as streams, the video too."""
        covers = [index for index, copy in self._copies.items() if copy.source.disposition & _COVER]
        return [self._main, *(index for index in self._copies if index not in covers)]

    def amendments(self) -> dict[int, Amendment]:
        """What is to be written into the tracks afterwards, by their places among the streams with packets."""
        places = {stream.index: place for place, stream in enumerate(tracks(self._target))}
        return {
            places[copy.stream.index]: Amendment(delay_ns=copy.delay_ns)
            for copy in self._copies.values()
            if copy.delayed
        }

    def notes(self) -> list[str]:
        return [line for copy in self._copies.values() for line in copy.notes()]

    def _add(self, stream: Stream) -> bool:
        """Whether the target holds the stream."""
        if stream.disposition & _COVER:
            return self._add_cover(stream)
        if stream.type == "attachment":
            return self._attach(stream.name or "attachment", stream.mimetype, stream.data)  # type: ignore[attr-defined]
        if stream.type == "data":
            # Mp4 has chapters and a timecode also as streams; both are carried as what they say.
            return "timecode" in stream.metadata or (codec_of(stream) == "bin_data" and bool(self._source.chapters()))
        first = self._first_packet(stream) if stream.type == "audio" else None
        head, delayed = trial(self._kind, stream, first), False
        if head:
            delayed = stream.type == "audio" and self._kind != "mp4" and not has_delay(head)
            copied = Copy(stream, add_copy(self._target, stream), delayed=delayed)
        elif stream.type == "subtitle" and codec_of(stream) in PLAIN:
            conversion = Conversion(stream, self._target, KIND_IN[self._kind])  # type: ignore[arg-type]
            copied = Copy(stream, conversion.stream, conversion)
        else:
            return False
        describe(copied.stream, stream, self._kind)
        if delayed:
            copied.stream.metadata["title"] = copied.stream.metadata.get("title", "") + ROOM
        self._copies[stream.index] = copied
        return True

    def _add_cover(self, stream: Stream) -> bool:
        data = self._first_packet(stream)
        if self._kind == "mp4" and trial("mp4", stream, None):
            copied = add_copy(self._target, stream)
            copied.disposition = _COVER
            self._copies[stream.index] = Copy(stream, copied)
            return True
        suffix = _COVER_TYPES.get(codec_of(stream), "jpg")
        name = stream.metadata.get("filename", f"cover.{suffix}")
        mime = stream.metadata.get("mimetype", f"image/{'jpeg' if suffix == 'jpg' else suffix}")
        return self._attach(name, mime, bytes(data) if data is not None else b"")

    def _attach(self, name: str, mime: str | None, data: bytes) -> bool:
        if self._kind == "matroska":
            self._target.add_attachment(name, mime or "application/octet-stream", data)
        return self._kind == "matroska"

    def _first_packet(self, stream: Stream) -> av.Packet[Any] | None:
        assert self._carried.path is not None  # noqa: S101 - or there is no source
        with open_container(self._carried.path) as again:
            return next((packet for packet in again.demux(again.streams[stream.index]) if packet.size), None)

    def _chapters(self) -> list[Any]:
        timing, chapters = self._carried.timing, self._source.chapters()
        for chapter in chapters:
            unit = chapter["time_base"] or 1
            shift = round(self._carried.origin_s / unit)
            end = chapter["end"] - shift
            if timing is not None and self._carried.ends_early:
                end = min(end, round(timing.end_s / unit))
            chapter["start"], chapter["end"] = chapter["start"] - shift, end
        return [chapter for chapter in chapters if chapter["end"] > chapter["start"]]


def tracks(target: OutputContainer) -> list[Stream]:
    """The streams of a target that hold packets."""
    return [stream for stream in target.streams if stream.type != "attachment"]


def describe(target: Stream, source: Stream, kind: str) -> None:
    """Title, language and purpose of a stream, for its copy."""
    target.metadata.update(stream_tags(source.metadata))
    if kind == "mp4" and "title" in target.metadata:
        target.metadata["handler_name"] = target.metadata["title"]  # the only name of a track that all readers know
    target.disposition = source.disposition


def trial(kind: str, stream: Stream, packet: av.Packet[Any] | None) -> bytes:
    """A file of such a kind with this stream alone; nothing where it does not take it. Tried, not looked up."""
    file = io.BytesIO()
    try:
        with av.open(file, "w", format=kind) as container:
            copy = add_copy(container, stream)
            container.start_encoding()
            if packet is not None:
                packet.stream, packet.pts, packet.dts = copy, 0, 0
                container.mux_one(packet)
    except (ValueError, av.FFmpegError):
        return b""
    return file.getvalue()


def add_copy(target: OutputContainer, stream: Stream) -> Any:
    """A stream in the target that takes the packets of another as they are."""
    copy: Any = target.add_stream_from_template(stream, opaque=True)
    if stream.type == "audio" and copy.codec_context.layout.name in _UNORDERED:
        copy.codec_context.layout = _UNORDERED[copy.codec_context.layout.name]
    return copy


def why_not(kind: str, stream: Stream) -> str:
    """Why a container does not take a stream, and which one does."""
    if kind == "matroska":
        return "mkv cannot hold it"
    only = {"audio": "opus and vorbis", "subtitle": "plain text"} if kind == "webm" else {}
    return (
        f"{kind} holds {only[stream.type]} only, mkv all" if stream.type in only else f"{kind} cannot hold it, mkv can"
    )
