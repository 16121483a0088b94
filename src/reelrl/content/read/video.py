"""Frames out of files: y4m, raw yuv, and whatever PyAV opens.

Planes come out as they are stored: no scaling, no RGB, no change of range. What is not 4:2:0 with 8 or 10 bits and
even dimensions is refused, with the command that converts it, or converted where that was asked for.

A file that ends too early delivers the frames that are whole and then raises `ContentError`.
"""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reelrl.content.read.uncompressed import (
    RAW_SUFFIXES,
    Y4M_CHROMA,
    Y4M_MAGIC,
    RawVideo,
    Y4mVideo,
    opened,
    y4m_chroma,
)
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from reelrl.content.frame import Frame

CACHED_FRAMES = 16


class OpenVideo(Protocol):
    """What each kind of file can do; a pass opens the file and closes it when it ends or is dropped."""

    width: int
    height: int
    depth: int

    @property
    def fps(self) -> Fraction | None: ...

    @property
    def frame_count(self) -> int: ...

    def frames(self, start: int) -> Iterator[Frame]: ...


class VideoReader:
    """Reads one video file, forward; `get_frame` remembers the last frames it passed.

    `size` (width, height) and `fps` serve raw files whose name does not tell them (`foo_352x288_30.yuv` does); on other
    files `fps` overrides the stored rate and `size` must agree with the stored one. A raw file has 8 bits unless its
    name says 10bit or 420p10. `convert_420` makes 4:2:0 of 4:2:2 and 4:4:4, which are refused otherwise.
    """

    def __init__(
        self,
        path: str | Path,
        size: tuple[int, int] | None = None,
        fps: Fraction | int | None = None,
        *,
        convert_420: bool = False,
    ) -> None:
        self.path = Path(path)
        self._video = _open_video(self.path, size, convert_420=convert_420)
        self.width = self._video.width
        self.height = self._video.height
        self.depth = self._video.depth
        if size is not None and tuple(size) != (self.width, self.height):
            raise ConfigError(
                f"{path} is {self.width}x{self.height}, not {size[0]}x{size[1]}: leave the size out, or scale the file"
            )
        self.fps = self._rate(fps)
        self._pass: Iterator[Frame] = iter(())
        self._next = 0
        self._recent: OrderedDict[int, Frame] = OrderedDict()

    @property
    def frame_count(self) -> int:
        """Frames in the file; where it is cut short, as many as it should have held."""
        return self._video.frame_count

    def __len__(self) -> int:
        return self.frame_count

    def __iter__(self) -> Iterator[Frame]:
        return self.frames()

    def frames(self, start: int = 0) -> Iterator[Frame]:
        """A fresh pass from frame `start`; compressed files decode from the key frame before it."""
        return self._video.frames(start)

    def get_frame(self, index: int) -> Frame:
        """One frame by number.

        The last 16 frames read are remembered. Further back, a compressed file is decoded again from the key
        frame before: walk forward where you can.
        """
        if not 0 <= index < self.frame_count:
            raise ConfigError(f"frame {index} does not exist: {self.path} has frames 0 to {self.frame_count - 1}")
        if index in self._recent:
            return self._recent[index]
        if index < self._next or not self._recent:
            self._restart(index)
        try:
            while self._next <= index:
                self._remember(next(self._pass))
        except ContentError:
            self.close()  # the pass is over; the next call begins another
            raise
        return self._recent[index]

    def close(self) -> None:
        """Forget the remembered frames and close the file; the reader can still be used and opens it again."""
        self._pass = iter(())
        self._recent.clear()

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _restart(self, index: int) -> None:
        self.close()
        # Half a cache earlier, so that a walk backwards starts again once per eight frames and not for each.
        self._next = max(0, index - CACHED_FRAMES // 2)
        self._pass = self.frames(self._next)

    def _remember(self, frame: Frame) -> None:
        self._recent[self._next] = frame
        self._next += 1
        if len(self._recent) > CACHED_FRAMES:
            self._recent.popitem(last=False)

    def _rate(self, fps: Fraction | int | None) -> Fraction:
        rate = self._video.fps if fps is None else Fraction(fps)
        if rate is None or rate <= 0:
            raise ContentError(f"{self.path} has frame rate {rate or 'unknown'}; pass fps=")
        return rate


def is_y4m(path: Path) -> bool:
    """Whether the file begins as y4m does; an empty one is refused."""
    with opened(path) as file:
        start = file.read(len(Y4M_MAGIC))
    if not start:
        raise ContentError(f"{path} is empty (0 bytes); copy or make it again")
    return start == Y4M_MAGIC


def _open_video(path: Path, size: tuple[int, int] | None, *, convert_420: bool) -> OpenVideo:
    if is_y4m(path) and not (convert_420 and y4m_chroma(path) not in Y4M_CHROMA):
        return Y4mVideo(path)
    if path.suffix.lower() in RAW_SUFFIXES:
        return RawVideo(path, size)
    from reelrl.content.read.container import ContainerVideo

    return ContainerVideo(path, convert_420=convert_420)
