"""The sound of a clip's file as a track of its own: copied where players know it, else encoded to Opus."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av

from reelrl.content.read.container import open_container
from reelrl.content.read.uncompressed import RAW_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.container import InputContainer, OutputContainer

    from reelrl.content.clip import Clip

COPIED = ("aac", "opus")
RATE_HZ = 48_000
BITS_PER_S = 96_000


class AudioTrack:
    """Packets of the first sound track, muxed up to where the pictures are."""

    def __init__(self, source: InputContainer) -> None:
        self._source = source
        self._stream = source.streams.audio[0]
        self._copied = self._stream.codec_context.name in COPIED
        self._begin_s = Fraction(source.start_time or 0, av.time_base)
        self._out: Any = None
        self._target: OutputContainer | None = None
        self._packets: Iterator[Any] = iter(())
        self._next: Any = None

    @staticmethod
    def of(clip: Clip) -> AudioTrack | None:
        """The track of a clip that is a file with sound."""
        if len(clip.files) != 1 or clip.files[0].suffix.lower() in RAW_SUFFIXES:
            return None
        source = open_container(clip.files[0])
        if source.streams.audio:
            return AudioTrack(source)
        source.close()
        return None

    def begin(self, target: OutputContainer) -> None:
        """Add the track to a file."""
        self._target = target
        if self._copied:
            self._out = target.add_stream_from_template(self._stream, opaque=True)
        else:
            self._out = target.add_stream("libopus", rate=RATE_HZ)
            self._out.layout = "stereo" if self._stream.codec_context.channels > 1 else "mono"
            self._out.bit_rate = BITS_PER_S
        self._packets = self._copies() if self._copied else self._encoded()
        self._next = next(self._packets, None)

    def mux_until(self, end_s: Fraction) -> None:
        """Write what sounds before a time."""
        while self._next is not None and self._target is not None and self._next.pts * self._next.time_base < end_s:
            self._target.mux(self._next)
            self._next = next(self._packets, None)

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()

    def _copies(self) -> Iterator[Any]:
        for packet in self._source.demux(self._stream):
            if packet.pts is None:
                continue
            shift = round(self._begin_s / packet.time_base)
            packet.pts -= shift
            packet.dts = packet.pts
            packet.stream = self._out
            yield packet

    def _encoded(self) -> Iterator[Any]:
        resampler = av.AudioResampler("flt", self._out.layout, RATE_HZ)
        for frame in self._source.decode(self._stream):
            for part in resampler.resample(frame):
                yield from self._out.encode(part)
        for part in resampler.resample(None):
            yield from self._out.encode(part)
        yield from self._out.encode(None)
