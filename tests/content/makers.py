"""Small videos for the tests."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

import av
import numpy as np
from hypothesis import strategies as st

from reelrl.content.clip import Clip
from reelrl.content.frame import Frame, frame_bytes
from reelrl.encode.codecs.scheduling import normal_scheduling

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from av.video.stream import VideoStream

even = st.integers(1, 20).map(lambda half: 2 * half)
rates = st.fractions(min_value=1, max_value=240, max_denominator=1001)


def noise_frames(width: int, height: int, count: int, seed: int = 0) -> list[Frame]:
    """Frames that all differ."""
    rng = np.random.default_rng(seed)
    return [Frame(rng.integers(0, 256, frame_bytes(width, height), np.uint8), width, height) for _ in range(count)]


def smooth_frames(width: int, height: int, count: int) -> list[Frame]:
    """A slope that slides: easy to encode, each frame different."""
    rows, columns = np.mgrid[:height, :width]
    frames = []
    for number in range(count):
        frame = Frame.empty(width, height)
        frame.y[...] = (rows + columns + 3 * number) % 200 + 20
        frame.u[...] = 100 + number % 50
        frame.v[...] = 140
        frames.append(frame)
    return frames


@st.composite
def clips(draw: st.DrawFn, max_frames: int = 8) -> Clip:
    """Clips of random size, rate, length and content, in memory."""
    width, height = draw(even), draw(even)
    count, seed = draw(st.integers(1, max_frames)), draw(st.integers(0, 2**32 - 1))
    return Clip.from_frames(noise_frames(width, height, count, seed), fps=draw(rates))


def encode(
    path: Path,
    frames: Iterable[Frame],
    *,
    codec: str = "ffv1",
    pixel_format: str = "yuv420p",
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    fps: int = 25,
) -> Path:
    """Encode frames with PyAV; the container is chosen by the suffix."""
    frames = list(frames)
    # As root libsvtav1 would put this thread, and all that is started after it, into the real-time class.
    with normal_scheduling(), av.open(str(path), "w", options=container_options or {}) as container:
        stream = cast("VideoStream", container.add_stream(codec, rate=fps, options=options or {}))
        stream.width, stream.height, stream.pix_fmt = frames[0].width, frames[0].height, pixel_format
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame.data.reshape(-1, frame.width), format="yuv420p")
            container.mux(stream.encode(picture.reformat(format=pixel_format)))
        container.mux(stream.encode(None))
    return path


def cut(path: Path, share: float) -> Path:
    """Keep the first part of a file."""
    data = path.read_bytes()
    short = path.with_name(f"cut_{path.name}")
    short.write_bytes(data[: int(len(data) * share)])
    return short


NTSC = Fraction(30000, 1001)
