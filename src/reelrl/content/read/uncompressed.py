"""Uncompressed video files: y4m, and raw planar yuv whose size the caller or the name tells."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from reelrl.content.frame import Frame, check_size, frame_bytes
from reelrl.errors import ContentError
from reelrl.storage.files import explain_os_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Y4M_MAGIC = b"YUV4MPEG2"
# Bits of a sample. Formats of 8 bits differ in where chroma is sited, not in layout.
Y4M_CHROMA = {"420": 8, "420jpeg": 8, "420mpeg2": 8, "420paldv": 8, "420p10": 10}
RAW_SUFFIXES = (".yuv", ".i420", ".raw")
RAW_NAME = re.compile(
    r"(?<![0-9A-Za-z])(\d{1,5})x(\d{1,5})(?:[_@-](\d+(?:\.\d+)?)(?:fps|hz)?(?![0-9A-Za-z]))?", re.IGNORECASE
)
RAW_10_BIT = re.compile(r"(?<![0-9A-Za-z])(10-?bits?|(yuv)?420p10(le)?)(?![0-9A-Za-z])", re.IGNORECASE)
RAW_FPS = Fraction(30)  # where neither the caller nor the name tells
LONGEST_LINE = 4096


def conversion_command(path: Path, depth: int = 8) -> str:
    """The shell command that makes a readable file out of one in another pixel format or of odd size."""
    output = path.with_name(f"{path.stem}_420.y4m")
    crop = "crop=trunc(iw/2)*2:trunc(ih/2)*2"
    form = "yuv420p" if depth == 8 else "yuv420p10le -strict -1"
    return f"ffmpeg -i {shlex.quote(str(path))} -vf '{crop}' -pix_fmt {form} {shlex.quote(str(output))}"


def deinterlacing_command(path: Path) -> str:
    """The shell command that makes whole pictures of an interlaced file and loses nothing else."""
    output = path.with_name(f"{path.stem}_progressive.mkv")
    copied = "-map 0 -c copy -c:v ffv1 -vf bwdif"
    return f"ffmpeg -i {shlex.quote(str(path))} {copied} {shlex.quote(str(output))}"


def interlaced(path: Path, number: int) -> ContentError:
    """The refusal of a file whose pictures are made of two fields each, taken at two times."""
    return ContentError(
        f"{path}: frame {number} is interlaced (two fields in one picture); make whole pictures of them with\n"
        f"  {deinterlacing_command(path)}"
    )


def check_plain_file(path: Path) -> None:
    """Refuse what is not there, and what a reader would wait for (a pipe) or never finish (a device)."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error
    except ValueError as error:  # the name holds a zero byte
        raise ContentError(f"{str(path)!r} cannot be the name of a file ({error}); check the path") from error
    if stat.S_ISDIR(mode):
        raise ContentError(f"{path} is a folder, not a video; name a file in it")
    if not stat.S_ISREG(mode):
        raise ContentError(f"{path} is not a plain file but a pipe or device; copy the video into a file first")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, to read; failures of the disk become ours."""
    check_plain_file(path)
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error


def refuse_odd_size(path: Path, width: int, height: int, depth: int) -> None:
    if width % 2 or height % 2:
        command = conversion_command(path, depth)
        raise ContentError(f"{path} is {width}x{height}; 4:2:0 video needs even dimensions: crop it with\n  {command}")


def refuse_format(path: Path, name: str, depth: int, *, convertible: bool = True) -> ContentError:
    """The error for a pixel format that is not read as it is."""
    here = "reel encode converts it with --convert-420; for other commands " if convertible else ""
    return ContentError(
        f"{path} has pixel format {name}; only 4:2:0 with 8 or 10 bits can be read as it is: {here}convert it with\n"
        f"  {conversion_command(path, depth)}"
    )


class RawVideo:
    """Planar I420 frames, one after the other, nothing else; 10 bits take two bytes, the low one first."""

    def __init__(self, path: Path, size: tuple[int, int] | None) -> None:
        named_size, named_fps = size_from_name(path)
        if size is None and named_size is None:
            raise ContentError(
                f"{path} is raw video and its name tells no size; pass size=(width, height) or name it like "
                f"{path.stem}_352x288_30{path.suffix}"
            )
        self.path = path
        self.width, self.height = size or named_size or (0, 0)
        self.fps: Fraction | None = named_fps or RAW_FPS
        self.depth = depth_from_name(path)
        refuse_odd_size(path, self.width, self.height, self.depth)
        check_size(self.width, self.height)
        self.frame_count = self._count()

    def frames(self, start: int) -> Iterator[Frame]:
        with opened(self.path) as file:
            file.seek(start * frame_bytes(self.width, self.height, self.depth))
            for number in range(start, self.frame_count):
                yield _read_frame(self, file, number)

    def _count(self) -> int:
        held, each = self.path.stat().st_size, frame_bytes(self.width, self.height, self.depth)
        count, rest = divmod(held, each)
        if rest:
            whole = self.path.with_name(f"{self.path.stem}_whole{self.path.suffix}")
            raise ContentError(
                f"{self.path} has {held} bytes, which is {held / each:.2f} frames of {self.width}x{self.height} in "
                f"{self.depth} bits: the size or depth is wrong, or the file is cut short; name it right, or keep the "
                f"{count} whole frames with\n"
                f"  head -c {count * each} {shlex.quote(str(self.path))} > {shlex.quote(str(whole))}"
            )
        return count


def size_from_name(path: Path) -> tuple[tuple[int, int] | None, Fraction | None]:
    """((width, height), fps) as a raw file's name tells them: foo_352x288_30.yuv, foo-352x288.yuv."""
    match = RAW_NAME.search(path.stem)
    if match is None:
        return None, None
    width, height, fps = match.groups()
    return (int(width), int(height)), Fraction(fps) if fps and Fraction(fps) > 0 else None


def depth_from_name(path: Path) -> int:
    """Bits of a sample as a raw file's name tells them: 10 in foo_64x48_10bit.yuv or foo_64x48_420p10.yuv, else 8."""
    return 10 if RAW_10_BIT.search(path.stem) else 8


@dataclass(frozen=True)
class _Y4mIndex:
    """Where each whole frame's pixels start, and what was wrong after the last of them."""

    offsets: list[int]
    frame_count: int
    damage: str


class Y4mVideo:
    """YUV4MPEG2: a header line, then per frame a line "FRAME ..." and the planes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tags, self._first = _y4m_header(path)
        chroma = tags.get("C", "420")
        if chroma not in Y4M_CHROMA:
            raise refuse_format(path, f"C{chroma}", 10 if re.search(r"p1\d$", chroma) else 8)
        self.depth = Y4M_CHROMA[chroma]
        if tags.get("I", "p") in ("t", "b", "m"):
            raise interlaced(path, 0)
        self.width, self.height = self._number(tags, "W"), self._number(tags, "H")
        self.fps = self._rate(tags.get("F", ""))
        refuse_odd_size(path, self.width, self.height, self.depth)
        check_size(self.width, self.height)

    @property
    def frame_count(self) -> int:
        return self._index.frame_count

    def frames(self, start: int) -> Iterator[Frame]:
        index = self._index
        with opened(self.path) as file:
            for number in range(start, len(index.offsets)):
                file.seek(index.offsets[number])
                yield _read_frame(self, file, number)
        if index.damage:
            whole = len(index.offsets)
            raise ContentError(
                f"{self.path}: frame {whole} of {index.frame_count} {index.damage}; copy the file again"
                + (f", or use its first {whole} frames" if whole else "")
            )

    @cached_property
    def _index(self) -> _Y4mIndex:
        """One walk over the frame lines; it skips the pixels."""
        each = frame_bytes(self.width, self.height, self.depth)
        offsets: list[int] = []
        damage = ""
        with opened(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            position = self._first
            while position < size and not damage:
                file.seek(position)
                line = file.readline(LONGEST_LINE)
                position += len(line)
                damage = _frame_damage(line, size - position, each)
                if not damage:
                    offsets.append(position)
                    position += each
        lost = 1 + max(0, size - position - each) // (each + len(b"FRAME\n")) if damage else 0
        return _Y4mIndex(offsets, len(offsets) + lost, damage)

    def _number(self, tags: dict[str, str], key: str) -> int:
        if not tags.get(key, "").isdecimal():
            raise ContentError(
                f"{self.path}: the y4m header has {key}{tags.get(key, '')!r}; a number must follow {key}"
            )
        return int(tags[key])

    def _rate(self, text: str) -> Fraction | None:
        match = re.fullmatch(r"(\d+):(\d+)", text)
        if match is None or not int(match[1]) or not int(match[2]):
            return None
        return Fraction(int(match[1]), int(match[2]))


def y4m_chroma(path: Path) -> str:
    """The pixel format that a y4m file's header names."""
    return _y4m_header(path)[0].get("C", "420")


def _y4m_header(path: Path) -> tuple[dict[str, str], int]:
    """Tags by their letters, and where the first frame begins."""
    with opened(path) as file:
        header = file.readline(LONGEST_LINE)
    if not header.endswith(b"\n"):
        raise ContentError(f"{path}: the y4m header is cut short after {len(header)} bytes; copy the file again")
    return {word[:1]: word[1:] for word in header.decode("latin-1").split()[1:]}, len(header)


def _frame_damage(line: bytes, bytes_left: int, each: int) -> str:
    """What is wrong with a frame that starts with this line; empty if nothing."""
    if not b"FRAME".startswith(line[:5]) and not line.startswith(b"FRAME"):
        return f"begins with {line[:12]!r} instead of FRAME"
    if not line.endswith(b"\n"):
        return f"is cut short in its first line ({line[:12]!r})"
    if bytes_left < each:
        return f"is cut short: {bytes_left} of {each} bytes are there"
    return ""


def _read_frame(video: RawVideo | Y4mVideo, file: BinaryIO, number: int) -> Frame:
    frame = Frame.empty(video.width, video.height, video.depth)
    got = file.readinto(frame.data)  # type: ignore[attr-defined]
    where = f"{video.path}: frame {number} of {video.frame_count}"
    if got != frame.data.nbytes:
        raise ContentError(
            f"{where} is cut short: {got} of {frame.data.nbytes} bytes are there; the file shrank while it was read"
        )
    if frame.depth == 10:
        if sys.byteorder == "big":
            frame.data.byteswap(inplace=True)
        try:
            frame.check_range()
        except ContentError as error:
            raise ContentError(f"{where}: {error}") from None
    return frame
