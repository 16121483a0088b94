"""Segments of a ladder as DASH and HLS: fragmented MP4 (CMAF) by FFmpeg's muxer, both manifests on the same files.

site/
  manifest.mpd  master.m3u8  media_0.m3u8 ...    Representation r is rung r; sound, if any, comes after them
  init-stream0.mp4  chunk-stream0-00001.m4s ...  a segment of so many frames, the first a key frame

All appear in the folder when the last segment is written; an interrupted run leaves what was there before.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import av
import numpy as np

from reelrl.content.write.video import IVF_HEADER, IVF_PACKET
from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error, refuse_overwriting
from reelrl.storage.regular_files import own_path
from reelrl.stream.data.audio_track import AudioTrack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from reelrl.content.clip import Clip
    from reelrl.stream.data.ladders import Floats

MANIFEST, HLS = "manifest.mpd", "master.m3u8"
OURS = re.compile(r"(init-stream\d+\.mp4|chunk-stream\d+-\d+\.m4s|media_\d+\.m3u8|manifest\.mpd|master\.m3u8)")
"""Names of files in a site."""
_DATES = re.compile(r"#EXT-X-PROGRAM-DATE-TIME:.*\n")
_LENGTH = re.compile(r'mediaPresentationDuration="[^"]*"')


def segment_name(rung: int, segment: int) -> str:
    """The file of a segment; both count from 0, file names from 1."""
    return f"chunk-stream{rung}-{segment + 1:05d}.m4s"


class Packager:
    """Takes the packets of one segment after the other, at all rungs; then `finish`, then `put_in_place`."""

    def __init__(
        self, folder: Path, clip: Clip, frames: int, sizes: Sequence[tuple[int, int]] = (), *, sound: bool = True
    ) -> None:
        self._folder, self._clip, self._frames = folder, clip, frames
        self._sizes = sizes  # of the pictures of each rung; none: all as the clip's
        self._room = Path(tempfile.mkdtemp(prefix=".site-", dir=folder))
        self._payload: list[list[int]] = []  # bytes of packets, by segment and rung
        self._streams: list[Any] = []
        self._audio = AudioTrack.of(clip) if sound else None
        sets = "id=0,streams=v" + (" id=1,streams=a" if self._audio else "")
        # Rounded down: a segment is cut at the first key frame that does not come before its time.
        self._segment_us = int(Fraction(frames) / clip.fps * 1_000_000)
        self._target = av.open(
            str(self._room / MANIFEST),
            "w",
            format="dash",
            options={
                "seg_duration": f"{self._segment_us}us",
                "adaptation_sets": sets,
                "use_timeline": "0",
                "hls_playlist": "1",
                "init_seg_name": "init-stream$RepresentationID$.mp4",
                "media_seg_name": "chunk-stream$RepresentationID$-$Number%05d$.m4s",
                "format_options": "movflags=+cmaf",
                "fflags": "bitexact",
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._audio:
            self._audio.close()
        shutil.rmtree(self._room, ignore_errors=True)

    def add(self, rungs: Sequence[Sequence[bytes]]) -> None:
        """The next segment: the packets of each rung, lowest first, one per frame in display order."""
        if not self._streams:
            self._begin(rungs)
        start = len(self._payload) * self._frames
        for number in range(self._frames):
            for stream, packets in zip(self._streams, rungs, strict=True):
                self._mux(stream, packets[number], start + number, key=number == 0)
        self._payload.append([sum(map(len, packets)) for packets in rungs])
        if self._audio:
            self._audio.mux_until(Fraction(len(self._payload) * self._frames) / self._clip.fps)

    def finish(self) -> Floats:
        """No more segments; returns their sizes in bytes, (segments, rungs)."""
        try:
            self._target.close()
        except (av.FFmpegError, OSError) as error:
            raise ContentError(f"cannot write {self._folder}: {error}; is the disk full?") from error
        return self._checked_sizes()

    def put_in_place(self) -> None:
        """Let the site appear, and what is left of another one disappear."""
        try:
            self._replace()
        except OSError as error:
            raise ContentError(explain_os_error(error, self._folder, "write")) from error

    def _begin(self, rungs: Sequence[Sequence[bytes]]) -> None:
        clip = self._clip
        for packets, size in zip(rungs, self._sizes or [(clip.width, clip.height)] * len(rungs), strict=True):
            # A reader of the first packet knows the codec's configuration, which the muxer needs beforehand.
            with av.open(_ivf(packets[0], size, clip.fps), "r", format="ivf") as source:
                self._streams.append(self._target.add_stream_from_template(source.streams.video[0], opaque=True))
        if self._audio:
            self._audio.begin(self._target)

    def _mux(self, stream: Any, data: bytes, number: int, *, key: bool) -> None:
        packet = av.Packet(data)
        packet.stream = stream
        packet.time_base = 1 / self._clip.fps
        packet.pts = packet.dts = number
        packet.duration = 1
        packet.is_keyframe = key
        self._target.mux(packet)

    def _checked_sizes(self) -> Floats:
        """The muxer does not say when a disk is full: every file must be there and hold at least its packets."""
        sizes = np.zeros((len(self._payload), len(self._streams)))
        for segment, payload in enumerate(self._payload):
            for rung, least in enumerate(payload):
                file = self._room / segment_name(rung, segment)
                found = file.stat().st_size if file.is_file() else 0
                if found < least:
                    raise ContentError(
                        f"{self._folder}: {file.name} has {found} of at least {least} bytes; is the disk full?"
                    )
                sizes[segment, rung] = found
        return sizes

    def _replace(self) -> None:
        made = sorted(self._room.iterdir())
        for file in made:
            refuse_overwriting(self._folder / file.name, *self._clip.files)
            if file.suffix == ".m3u8":
                file.write_text(_DATES.sub("", file.read_text()))  # the same video gives the same files
            elif file.suffix == ".mpd":
                # The muxer rounds to tenths, and players would ask for a segment after the last.
                length_s = len(self._payload) * self._segment_us / 1_000_000
                text = _LENGTH.sub(f'mediaPresentationDuration="PT{length_s:.6f}S"', file.read_text())
                file.write_text(text)
        for old in self._folder.iterdir():
            if OURS.fullmatch(old.name) and not (self._room / old.name).exists():
                refuse_overwriting(old, *self._clip.files)
                old.unlink()
        # Segments before the manifests that name them.
        for file in sorted(made, key=lambda each: each.suffix in (".mpd", ".m3u8")):
            file.replace(own_path(self._folder / file.name))


def _ivf(packet: bytes, size: tuple[int, int], fps: Fraction) -> io.BytesIO:
    """A file of one packet."""
    head = IVF_HEADER.pack(b"DKIF", 0, IVF_HEADER.size, b"AV01", *size, fps.numerator, fps.denominator, 1, 0)
    return io.BytesIO(head + IVF_PACKET.pack(len(packet), 0) + packet)
