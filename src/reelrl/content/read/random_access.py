"""Single pictures out of a video file: decoding begins at the nearest key frame before, never at the start.

video = RandomAccessVideo("player_0.mp4")
video.pictures([700, 3, 4])        # (3, height, width, 3), in the order asked for
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np

from reelrl.content.read.container import open_container
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


class RandomAccessVideo:
    """The first video stream of a file, which stays open until `close`. For one thread at a time.

    `size` is (height, width); `decoded` counts the frames that were decoded so far, wanted or not.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.decoded = 0
        self._container = open_container(self.path)
        if not self._container.streams.video:
            raise ContentError(f"{self.path} holds no video; name another file")
        self._stream = self._container.streams.video[0]
        context = self._stream.codec_context
        if context is None:
            raise ContentError(f"{self.path}: no decoder for its video; name another file, or convert it")
        context.thread_count = 1  # many of these may be open; no frame waits for the next one
        self.size = (context.height, context.width)
        self._coming: Iterator[av.VideoFrame] = iter(())
        self._next = -1  # number of the frame that `_coming` gives next; -1 before the first seek

    @property
    def frame_count(self) -> int:
        return len(self._times)

    def pictures(self, numbers: Sequence[int] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """RGB pictures (n, height, width, 3) of these frames, in any order; one may be asked for more than once."""
        wanted = np.asarray(numbers, np.int64).reshape(-1)
        strange = wanted[(wanted < 0) | (wanted >= self.frame_count)]
        if len(strange):
            raise ConfigError(f"frame {strange[0]} of {self.path}, which has frames 0 to {self.frame_count - 1}")
        pictures = np.empty((len(wanted), *self.size, 3), np.uint8)
        for number in np.unique(wanted):
            pictures[wanted == number] = self._picture(int(number))
        return pictures

    def close(self) -> None:
        self._coming = iter(())
        self._container.close()

    def _picture(self, number: int) -> NDArray[np.uint8]:
        key = self._keys[bisect_right(self._keys, number) - 1]
        try:
            if not key <= self._next <= number:
                self._container.seek(self._times[key], stream=self._stream)
                self._coming, self._next = self._decode(), key
            while True:
                frame = next(self._coming)
                self._next += 1
                if self._next > number:
                    break
        except (av.FFmpegError, StopIteration) as error:
            self._next = -1
            raise self._refusal(f"frame {number} cannot be decoded", error) from error
        if frame.pts != self._times[number] or (frame.height, frame.width) != self.size:
            self._next = -1
            raise self._refusal(f"frame {number} is not where it should be", f"time {frame.pts}")
        picture: NDArray[np.uint8] = frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)
        return picture

    def _decode(self) -> Iterator[av.VideoFrame]:
        for packet in self._container.demux(self._stream):
            for frame in packet.decode():
                self.decoded += 1
                yield frame

    @cached_property
    def _index(self) -> tuple[list[int], list[int]]:
        """Times of all frames, and numbers of the key frames among them; nothing is decoded for it."""
        times, keys = [], []
        try:
            for packet in self._container.demux(self._stream):
                if packet.size and packet.pts is not None:
                    times.append(packet.pts)
                    if packet.is_keyframe:
                        keys.append(packet.pts)
        except av.FFmpegError as error:
            raise self._refusal("cannot be read", error) from error
        times.sort()
        keys.sort()
        if not keys or keys[0] != times[0]:
            raise ContentError(f"{self.path} does not begin with a key frame; it is damaged: copy it again")
        return times, np.searchsorted(times, keys).tolist()

    @property
    def _times(self) -> list[int]:
        return self._index[0]

    @property
    def _keys(self) -> list[int]:
        return self._index[1]

    def _refusal(self, what: str, why: object) -> ContentError:
        reason = getattr(why, "strerror", None) or why or "the file ends before it"
        return ContentError(f"{self.path}: {what} ({reason}); it is damaged or cut short: copy it again")


class OpenVideos:
    """Videos that stay open, those that were used last; `at_most` of them."""

    def __init__(self, at_most: int = 64) -> None:
        self.at_most = at_most
        self._open: OrderedDict[Path, RandomAccessVideo] = OrderedDict()

    def open(self, path: Path) -> RandomAccessVideo:
        if path not in self._open:
            if len(self._open) >= self.at_most:
                self._open.popitem(last=False)[1].close()
            self._open[path] = RandomAccessVideo(path)
        self._open.move_to_end(path)
        return self._open[path]

    def close(self) -> None:
        """They open again when they are asked for."""
        while self._open:
            self._open.popitem()[1].close()
