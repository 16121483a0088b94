"""Files as people have them, made with PyAV: streams, chapters, attachments, tags; and an independent reader."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import av
import numpy as np
import pytest
from av.stream import Disposition
from av.subtitles.subtitle import SubtitleSet

from tests.content.makers import smooth_frames

if TYPE_CHECKING:
    from pathlib import Path

    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.subtitles.stream import SubtitleStream
    from av.video.stream import VideoStream

SIZE = (64, 48)
TICK = Fraction(1, 12800)
FONT = bytes(range(256)) * 4
STYLE = (
    b"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name\nStyle: Default\n\n[Events]\n"
    b"Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)
TEXTS = ["Hello {\\i1}there{\\i0}", "Two\\Nlines"]


@dataclass(frozen=True)
class Whole:
    """What to put into a file; each stream is left out on demand."""

    starts: Sequence[int] = tuple(512 * n for n in range(24))  # 25 frames/s in TICKs
    audio: Sequence[str] = ("aac", "libopus")
    audio_first: bool = False
    subtitles: str | None = "subrip"
    chapters: bool = True
    attachment: bool = True
    cover: bool = True
    tags: bool = True

    def write(self, path: Path) -> Path:
        with av.open(str(path), "w") as container:
            sound = [self._audio(container, codec, n) for n, codec in enumerate(self.audio)] if self.audio_first else []
            video = self._video(container)
            sound = sound or [self._audio(container, codec, n) for n, codec in enumerate(self.audio)]
            texts = self._subtitles(container) if self.subtitles else None
            if self.attachment:
                container.add_attachment("font.ttf", "font/ttf", FONT)
            if self.cover:
                container.add_attachment("cover.jpg", "image/jpeg", picture())
            if self.chapters:
                container.set_chapters([chapter(0, 400, "Opening"), chapter(400, 960, "Ending")])
            if self.tags:
                container.metadata.update(title="The film", artist="Somebody", comment="For a test")
            self._fill(container, video, sound, texts)
        return path

    def _video(self, container: OutputContainer) -> VideoStream:
        stream = container.add_stream("libx264", rate=25, options={"qp": "40"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        stream.time_base = stream.codec_context.time_base = TICK
        stream.metadata.update(title="Pictures", language="eng")
        stream.disposition = Disposition.default | Disposition.original
        return stream

    def _audio(self, container: OutputContainer, codec: str, number: int) -> AudioStream:
        stream = cast("AudioStream", container.add_stream(codec, rate=48000))
        stream.metadata.update(title=f"Sound {number}", language=("deu", "fra")[number % 2])
        stream.disposition = Disposition.comment if number else Disposition.default
        return stream

    def _subtitles(self, container: OutputContainer) -> SubtitleStream:
        stream = cast("SubtitleStream", container.add_stream(self.subtitles or ""))
        stream.codec_context.subtitle_header = STYLE
        stream.time_base = Fraction(1, 1000)
        stream.metadata.update(title="Words", language="eng")
        stream.disposition = Disposition.forced
        return stream

    def _fill(
        self, container: OutputContainer, video: VideoStream, sound: list[AudioStream], texts: SubtitleStream | None
    ) -> None:
        for start, frame in zip(self.starts, smooth_frames(*SIZE, len(self.starts)), strict=True):
            shown = av.VideoFrame.from_ndarray(frame.data.reshape(-1, SIZE[0]), format="yuv420p")
            shown.pts, shown.time_base = start, TICK
            container.mux(video.encode(shown))
        container.mux(video.encode(None))
        for stream in sound:
            tone = np.sin(np.arange(48000) / 20).astype(np.float32)
            samples = av.AudioFrame.from_ndarray(np.stack([tone, tone]), format="fltp", layout="stereo")
            samples.sample_rate, samples.pts = 48000, 0
            container.mux(stream.encode(samples))
            container.mux(stream.encode(None))
        for number, text in enumerate(TEXTS) if texts is not None else ():
            line = f"{number},0,Default,,0,0,0,,{text}".encode()
            packet = texts.codec_context.encode_subtitle(SubtitleSet.create(line, 0, 300))  # type: ignore[union-attr]
            packet.pts = packet.dts = 100 + 400 * number
            packet.duration, packet.time_base, packet.stream = 300, Fraction(1, 1000), texts
            container.mux(packet)


def chapter(start: int, end: int, title: str) -> Any:
    return {"id": start, "start": start, "end": end, "time_base": Fraction(1, 1000), "metadata": {"title": title}}


def picture() -> bytes:
    """A cover as JPEG."""
    file = io.BytesIO()
    with av.open(file, "w", format="image2pipe") as container:
        stream = container.add_stream("mjpeg", rate=1)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuvj420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 32), np.uint8), format="yuvj420p")))
        container.mux(stream.encode(None))
    return file.getvalue()


def ffprobe(path: Path, *sections: str) -> Any:
    """What Debian's ffmpeg reads in a file; the test is skipped where it is not installed."""
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("no ffprobe here to read the file independently; apt-get install ffmpeg")
    command = [program, "-v", "error", "-of", "json", *(f"-show_{section}" for section in sections), str(path)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
