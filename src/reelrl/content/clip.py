"""A finite video that can be read any number of times, wherever its frames come from.

path, recipe, game ──► Clip ──► for frame in clip        (one sequential pass, memory flat)
                                clip.load()              (all frames in memory)
                                clip.window(30, 60)      (a part, still lazy)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.content.frame import Frame, check_depth, check_size
from reelrl.errors import ConfigError, ContentError
from reelrl.storage.travelling_file import TravellingFile

if TYPE_CHECKING:
    from reelrl.content.read.video import VideoReader

SUPERBLOCK_SIZE = 64

FrameSource = Callable[[int], Iterator[Frame]]
"""Start a new pass at a frame number; module-level functions and partials keep clips picklable."""


def superblock_grid(width: int, height: int, size: int = SUPERBLOCK_SIZE) -> tuple[int, int]:
    """(rows, columns) of superblocks that cover a picture; the last ones may stick out."""
    return -(-height // size), -(-width // size)


@dataclass(frozen=True, kw_only=True)
class Clip:
    """What is known about a video, and a way to read it.

    `source` names who made the pictures: clips of one source never fall on both sides of a train/test split.
    `files` are those it reads from: none for pictures that are made or held in memory.
    `depth` is the bits of a sample, 8 or 10.
    Frames may be shared between readers: copy one before changing its pixels.
    """

    name: str
    width: int
    height: int
    fps: Fraction
    frame_count: int
    source: str
    licence_class: str = "unstated"
    start_reading: FrameSource = field(repr=False, compare=False)
    files: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    depth: int = 8

    def __post_init__(self) -> None:
        check_size(self.width, self.height)
        check_depth(self.depth)
        if self.fps <= 0:
            raise ContentError(f"{self.name}: frame rate is {self.fps}; it must be positive: pass fps=")
        if self.frame_count <= 0:
            raise ContentError(f"{self.name} has no frames; a clip needs at least one")

    @classmethod
    def open(
        cls,
        path: str | Path,
        size: tuple[int, int] | None = None,
        fps: Fraction | int | None = None,
        *,
        convert_420: bool = False,
    ) -> Clip:
        """A clip that reads from a file, anew on each pass; `size`, `fps`, `convert_420` as in `VideoReader`."""
        from reelrl.content.read.video import VideoReader

        with VideoReader(path, size, fps, convert_420=convert_420) as reader:
            return cls.described(
                path,
                width=reader.width,
                height=reader.height,
                fps=reader.fps,
                frame_count=reader.frame_count,
                depth=reader.depth,
                convert_420=convert_420,
            )

    @classmethod
    def described(
        cls,
        path: str | Path,
        *,
        width: int,
        height: int,
        fps: Fraction,
        frame_count: int,
        name: str = "",
        source: str = "",
        licence_class: str = "unstated",
        depth: int = 8,
        convert_420: bool = False,
    ) -> Clip:
        """A clip of a file that is known from elsewhere; the file is opened, and checked, when it is read."""
        return cls(
            name=name or Path(path).stem,
            width=width,
            height=height,
            fps=fps,
            frame_count=frame_count,
            source=source or Path(path).stem,
            licence_class=licence_class,
            start_reading=partial(
                _read_file, TravellingFile(path), (width, height), fps, frame_count, depth, convert_420
            ),
            files=(Path(path),),
            depth=depth,
        )

    @classmethod
    def from_frames(
        cls,
        frames: Iterable[Frame],
        *,
        fps: Fraction | int,
        name: str = "frames",
        source: str = "",
        licence_class: str = "unstated",
    ) -> Clip:
        """A clip that holds its frames in memory; all must have one size and depth."""
        held = tuple(frames)
        if not held:
            raise ContentError(f"{name} has no frames; a clip needs at least one")
        width, height, depth = held[0].width, held[0].height, held[0].depth
        for number, frame in enumerate(held):
            if frame.depth != depth:
                raise ContentError(
                    f"{name}: frame {number} has {frame.depth} bits, frame 0 has {depth}; a clip has one depth: "
                    f"use frame.at_depth({depth})"
                )
            if (frame.width, frame.height) != (width, height):
                raise ContentError(
                    f"{name}: frame {number} is {frame.width}x{frame.height}, frame 0 is {width}x{height}; "
                    "a clip has one size: scale the frames first"
                )
        return cls(
            name=name,
            width=width,
            height=height,
            fps=Fraction(fps),
            frame_count=len(held),
            source=source or name,
            licence_class=licence_class,
            start_reading=partial(_read_memory, held),
            depth=depth,
        )

    def __iter__(self) -> Iterator[Frame]:
        return self.frames()

    def __len__(self) -> int:
        return self.frame_count

    def frames(self, start: int = 0) -> Iterator[Frame]:
        """Frames from `start` on. Generated, raw and y4m clips jump there; others decode from the key frame before."""
        return self.start_reading(start)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all I420 frames in display order, as hex; the first call reads the whole clip."""
        digest = hashlib.sha256(b"" if self.depth == 8 else b"10 bit")
        for frame in self:
            digest.update(frame.data.data)
        return digest.hexdigest()

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of 64x64 superblocks."""
        return superblock_grid(self.width, self.height)

    @property
    def superblock_count(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def duration_s(self) -> float:
        return float(self.frame_count / self.fps)

    def load(self) -> Clip:
        """The same clip with every frame in memory."""
        return replace(self, start_reading=partial(_read_memory, tuple(self)))

    def at_depth(self, depth: int) -> Clip:
        """The same pictures with samples of so many bits (see `Frame.at_depth`); still lazy."""
        check_depth(depth)
        if depth == self.depth:
            return self
        return replace(self, depth=depth, start_reading=partial(_read_at_depth, self, depth))

    def window(self, start: int, count: int) -> Clip:
        """Frames `start` to `start + count - 1`; still lazy."""
        if start < 0 or count < 1 or start + count > self.frame_count:
            raise ConfigError(
                f"window of {count} frames from {start} does not fit {self.name}, which has {self.frame_count}"
            )
        name = f"{self.name}[{start}:{start + count}]"
        return replace(self, name=name, frame_count=count, start_reading=partial(_read_window, self, start, count))


def concatenate(clips: Sequence[Clip], name: str = "") -> Clip:
    """Clips of one size, one after the other; frame rate from the first.

    The source is the common one, or all of them joined by '+'; the licence class is the strictest.
    """
    if not clips:
        raise ConfigError("no clips to concatenate; pass at least one")
    first = clips[0]
    for clip in clips:
        if (clip.width, clip.height) != (first.width, first.height):
            raise ContentError(
                f"{clip.name} is {clip.width}x{clip.height}, {first.name} is {first.width}x{first.height}; "
                "only clips of one size can follow each other"
            )
        if clip.depth != first.depth:
            raise ContentError(
                f"{clip.name} has {clip.depth} bits, {first.name} has {first.depth}; clips of one depth can follow "
                f"each other: use clip.at_depth({first.depth})"
            )
    classes = {clip.licence_class for clip in clips}
    return replace(
        first,
        name=name or "+".join(clip.name for clip in clips),
        frame_count=sum(clip.frame_count for clip in clips),
        source="+".join(sorted({clip.source for clip in clips})),
        licence_class=classes.pop() if len(classes) == 1 else "unstated",
        start_reading=partial(_read_sequence, tuple(clips)),
        files=tuple(file for clip in clips for file in clip.files),
    )


def _read_file(
    path: str, size: tuple[int, int], fps: Fraction, frame_count: int, depth: int, convert_420: bool, start: int
) -> Iterator[Frame]:
    reader = _reader(path, size, fps, convert_420, _state_of(path))
    for found, expected, unit in ((reader.frame_count, frame_count, "frames"), (reader.depth, depth, "bits")):
        if found != expected:
            raise ContentError(
                f"{path} has {found} {unit}, {expected} were expected; it was changed or is another file: open it "
                "anew, or copy it again"
            )
    yield from reader.frames(start)


@lru_cache(maxsize=16)
def _reader(path: str, size: tuple[int, int], fps: Fraction, convert_420: bool, state: tuple[int, ...]) -> VideoReader:
    """A file's reader, which holds no file open: where its frames lie is found once, however often it is read."""
    del state  # another one is another file
    from reelrl.content.read.video import VideoReader

    return VideoReader(path, size, fps, convert_420=convert_420)


def _state_of(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return ()  # the reader says what is wrong
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read_memory(frames: tuple[Frame, ...], start: int) -> Iterator[Frame]:
    return islice(frames, start, None)


def _read_at_depth(clip: Clip, depth: int, start: int) -> Iterator[Frame]:
    return (frame.at_depth(depth) for frame in clip.frames(start))


def _read_window(clip: Clip, first: int, count: int, start: int) -> Iterator[Frame]:
    return islice(clip.frames(first + start), max(0, count - start))


def _read_sequence(clips: tuple[Clip, ...], start: int) -> Iterator[Frame]:
    for clip in clips:
        if start < clip.frame_count:
            yield from clip.frames(start)
        start = max(0, start - clip.frame_count)
