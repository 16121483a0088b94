"""Text subtitles from one container's kind into another's, where nothing is lost: SubRip, WebVTT, MP4's timed text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import av
    from av.container import OutputContainer
    from av.subtitles.stream import SubtitleStream

PLAIN = ("subrip", "text", "webvtt", "mov_text")
"""Kinds that hold the same: lines of text, italics and the like, no places or fonts."""

KIND_IN = {"mp4": "mov_text", "webm": "webvtt", "matroska": "subrip"}


class Conversion:
    """Packets of one text stream into packets of another kind."""

    def __init__(self, source: SubtitleStream, target: OutputContainer, kind: str) -> None:
        self._source: Any = source
        self.stream = cast("SubtitleStream", target.add_stream(kind))
        self.stream.time_base = source.time_base
        # An open decoder of text knows a style, which an encoder wants to hear.
        if not source.codec_context.is_open:
            source.codec_context.open()
        self.stream.codec_context.subtitle_header = source.codec_context.subtitle_header

    def packet(self, packet: av.Packet[Any]) -> av.Packet[Any] | None:
        """The same text at the same time; None where there is none."""
        texts = self._source.codec_context.decode2(packet)
        if texts is None or not len(texts):
            return None
        made = self.stream.codec_context.encode_subtitle(texts)
        made.pts, made.dts, made.duration = packet.pts, packet.dts, packet.duration
        made.time_base, made.stream, made.is_keyframe = packet.time_base, self.stream, True
        return made
