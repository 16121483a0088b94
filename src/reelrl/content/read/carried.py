"""What a video file carries besides its pixels: when and how its pictures are shown, and everything beside them.

read_carried("film.mkv") ──► Carried(timing, presentation, other streams) ──► write_bitstream(..., carried)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av

from reelrl.content.read.container import ContainerVideo, open_container, video_stream
from reelrl.content.read.timing import Timing
from reelrl.content.read.uncompressed import RAW_SUFFIXES
from reelrl.content.read.video import is_y4m
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

    from reelrl.content.clip import Clip

UNSPECIFIED = 2
"""What colour primaries, transfer and matrix are where nobody says."""

FULL_RANGE = 2
"""Luma from 0 to 255; 1 is 16 to 235, 0 unknown."""

_MASTERING = struct.Struct("=20i2i")  # FFmpeg's AVMasteringDisplayMetadata: ten fractions, two flags
_LIGHT = struct.Struct("=2I")
_MATRIX = struct.Struct("=9i")

# Side data of pictures that an AV1 file of ours has no place for.
_NOT_CARRIED = {
    "A53_CC": "closed captions inside the video stream",
    "DOVI_METADATA": "Dolby Vision metadata",
    "DYNAMIC_HDR_PLUS": "HDR10+ metadata",
    "DYNAMIC_HDR_VIVID": "HDR Vivid metadata",
    "ICC_PROFILE": "the ICC profile",
    "SPHERICAL": "the mapping of spherical video",
    "STEREO3D": "the arrangement of stereoscopic video",
}


@dataclass(frozen=True)
class MasteringDisplay:
    """The screen that HDR10 video was graded on; chromaticities (x, y), luminance (least, most) in cd/m2."""

    red: tuple[float, float]
    green: tuple[float, float]
    blue: tuple[float, float]
    white: tuple[float, float]
    luminance: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """How decoded pictures are to be shown.

    primaries, transfer, matrix  codes of ITU-T H.273
    light                        MaxCLL and MaxFALL in cd/m2
    aspect                       width of a pixel through its height
    display_matrix               rotation and mirroring, as FFmpeg's nine whole numbers
    """

    primaries: int = UNSPECIFIED
    transfer: int = UNSPECIFIED
    matrix: int = UNSPECIFIED
    color_range: int = 0
    mastering: MasteringDisplay | None = None
    light: tuple[int, int] | None = None
    aspect: Fraction = Fraction(1)
    display_matrix: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What goes with the pictures into another file.

    timing        None for a constant rate from zero
    path          file whose other streams, chapters and tags go along; None for none of them
    ends_early    only what belongs to the first pictures goes along
    origin_s      time that becomes zero: broadcasts begin anywhere
    not_carried   what is known to be lost, one line each
    """

    timing: Timing | None = None
    presentation: Presentation = field(default_factory=Presentation)
    path: Path | None = None
    ends_early: bool = False
    origin_s: Fraction = Fraction(0)
    not_carried: tuple[str, ...] = ()

    def first(self, frames: int) -> Carried:
        """The same for the first pictures only."""
        if self.timing is None or frames >= len(self.timing.starts):
            return self
        return replace(self, timing=self.timing.first(frames), ends_early=True)


def carried_by(clip: Clip, *, video_only: bool = False) -> Carried:
    """What the file of a clip carries; clips that are made, raw, or of several files carry nothing."""
    if len(clip.files) != 1 or clip.files[0].suffix.lower() in RAW_SUFFIXES:
        return Carried()
    return read_carried(clip.files[0], video_only=video_only).first(clip.frame_count)


def read_carried(path: Path, *, video_only: bool = False) -> Carried:
    """What a file carries besides its pixels; with `video_only` not the streams, chapters and tags beside the video."""
    with open_container(path) as container:
        stream = video_stream(path, container)
        picture = _first_picture(path, container, stream)
        presentation = _presentation(stream, picture)
        # Streams without a beginning, as broadcasts are, count from wherever the sender's clock stood.
        begins_anywhere = container.format.name in ("mpegts", "mpeg")
        origin_s = Fraction(container.start_time or 0, av.time_base) if begins_anywhere else Fraction(0)
        lost = tuple(what for kind, what in _NOT_CARRIED.items() if _side_data(picture, kind))
    timing = None if is_y4m(path) else _timing(ContainerVideo(path, convert_420=True))  # of any pixels
    if timing is not None:
        timing = timing.shifted(-round(origin_s / timing.time_base))
    return Carried(
        timing=timing,
        presentation=presentation,
        path=None if video_only else path,
        origin_s=origin_s,
        not_carried=lost,
    )


def _timing(video: ContainerVideo) -> Timing | None:
    if video.timing is not None or not video.fps:
        return video.timing
    return Timing(1 / video.fps, range(video.frame_count), 1)


def read_presentation(path: Path) -> Presentation:
    """How a file's pictures are to be shown."""
    with open_container(path) as container:
        stream = video_stream(path, container)
        return _presentation(stream, _first_picture(path, container, stream))


def _first_picture(path: Path, container: InputContainer, stream: VideoStream) -> av.VideoFrame:
    stream.codec_context.thread_count = 1
    try:
        return next(container.decode(stream))
    except (av.FFmpegError, StopIteration) as error:
        raise ContentError(
            f"{path}: its first picture cannot be decoded ({error}); it is damaged: copy it again"
        ) from error


def _presentation(stream: VideoStream, picture: av.VideoFrame) -> Presentation:
    stored = stream.codec_context
    full = picture.format.name.startswith("yuvj")
    return Presentation(
        primaries=_stated(picture.color_primaries, stored.color_primaries),
        transfer=_stated(picture.color_trc, stored.color_trc),
        matrix=_stated(picture.colorspace, stored.colorspace),
        color_range=FULL_RANGE if full else int(picture.color_range) or int(stored.color_range),
        mastering=_mastering(_side_data(picture, "MASTERING_DISPLAY_METADATA")),
        light=_unpacked(_LIGHT, _side_data(picture, "CONTENT_LIGHT_LEVEL")),
        aspect=max(Fraction(stream.sample_aspect_ratio or 1), Fraction(0)) or Fraction(1),
        display_matrix=_unpacked(_MATRIX, _side_data(picture, "DISPLAYMATRIX")),
    )


def _stated(picture: int, container: int) -> int:
    """What the pictures say of themselves, else what the container says."""
    return int(picture) if picture not in (0, UNSPECIFIED) else int(container) or UNSPECIFIED


def _side_data(picture: av.VideoFrame, kind: str) -> bytes:
    found: Any = picture.side_data.get(kind)
    return bytes(found) if found is not None else b""


def _unpacked(layout: struct.Struct, data: bytes) -> Any:
    return layout.unpack_from(data) if len(data) >= layout.size else None


def _mastering(data: bytes) -> MasteringDisplay | None:
    numbers = _unpacked(_MASTERING, data)
    if numbers is None or not (numbers[20] and numbers[21]):  # without colours or without luminance it says nothing
        return None
    red, green, blue, white, luminance = (
        (_quotient(*numbers[at : at + 2]), _quotient(*numbers[at + 2 : at + 4])) for at in range(0, 20, 4)
    )
    return MasteringDisplay(red, green, blue, white, luminance)


def _quotient(numerator: int, denominator: int) -> float:
    return numerator / denominator if denominator else 0.0
