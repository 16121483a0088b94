"""Whether what a source carries is found again in the file that was written: read, not assumed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import av

from reelrl.content.read.carried import Presentation, read_presentation
from reelrl.content.read.container import open_container, video_stream
from reelrl.content.write.copies import file_tags, label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from av.container import InputContainer
    from av.stream import Stream

    from reelrl.content.read.carried import Carried, MasteringDisplay

_TITLES = {
    "primaries": "colour primaries",
    "transfer": "colour transfer",
    "matrix": "colour matrix",
    "color_range": "colour range",
    "mastering": "HDR10 mastering display",
    "light": "HDR10 content light level",
    "aspect": "sample aspect ratio",
    "display_matrix": "rotation",
}
_PLAIN = Presentation()
_NAMES = {"matroska": "mkv"}


def not_arrived(path: Path, carried: Carried, kind: str, copied: Collection[int]) -> list[str]:
    """What the file at `path` lacks of what was to be carried into it, one line each.

    `copied` are the numbers of the source's streams that it should hold.
    """
    where = _NAMES.get(kind, kind)
    lines = list(_lost_presentation(carried.presentation, read_presentation(path), where))
    if carried.path is not None:
        with open_container(carried.path) as source, open_container(path) as written:
            lines += _lost_tags(source, written, where)
            lines += _lost_chapters(source, written, where, early=carried.ends_early)
            lines += _lost_details(source, written, where, copied)
    return lines


def left_out_of_ivf(carried: Carried) -> list[str]:
    """What a source carries that .ivf has no place for; colours and HDR10 are in the AV1 stream itself."""
    shown = carried.presentation
    bare = replace(shown, aspect=Fraction(1), display_matrix=None)
    lines = [*carried.not_carried, *_lost_presentation(shown, bare, "ivf")]
    if carried.path is not None:
        with open_container(carried.path) as source:
            main = video_stream(carried.path, source)
            others = [stream for stream in source.streams if stream.index != main.index]
            lines += [f"{label(stream)}: ivf holds nothing but video" for stream in others]
            if source.chapters():
                lines.append(f"chapters: 0 of {len(source.chapters())} arrived in ivf")
            if tags := file_tags(source.metadata):
                lines.append(f"tags {', '.join(tags)}: ivf has no place for them")
    return lines


def _lost_presentation(wanted: Presentation, found: Presentation, where: str) -> Iterator[str]:
    for name, title in _TITLES.items():
        want, have = getattr(wanted, name), getattr(found, name)
        if want in (have, getattr(_PLAIN, name)):
            continue
        if name == "mastering" and have is not None and alike(want, have):
            continue
        yield f"{title} ({want}): {where} has {have}"


def alike(one: MasteringDisplay, other: MasteringDisplay) -> bool:
    """The same but for rounding; containers and the AV1 stream round to different fractions."""
    places = ("red", "green", "blue", "white")
    near = all(
        abs(a - b) < 1e-4 for place in places for a, b in zip(getattr(one, place), getattr(other, place), strict=True)
    )
    # AV1 has the darkest level in steps of 1/16384 of a candela.
    return near and all(
        abs(a - b) <= 0.01 * a + 0.5 / 16384 for a, b in zip(one.luminance, other.luminance, strict=True)
    )


def _lost_tags(source: InputContainer, written: InputContainer, where: str) -> Iterator[str]:
    found = {key.lower(): value for key, value in written.metadata.items()}
    lost = [key for key, value in file_tags(source.metadata).items() if found.get(key.lower()) != value]
    if lost:
        yield f"tags {', '.join(lost)}: {where} has no place for them"


def _lost_chapters(source: InputContainer, written: InputContainer, where: str, *, early: bool) -> Iterator[str]:
    wanted, found = source.chapters(), written.chapters()
    titles = [[chapter["metadata"].get("title") for chapter in chapters] for chapters in (wanted, found)]
    if early:
        titles[0] = titles[0][: len(found)]
    if titles[0] != titles[1]:
        yield f"chapters: {len(found)} of {len(wanted)} arrived in {where}"


def _lost_details(
    source: InputContainer, written: InputContainer, where: str, copied: Collection[int]
) -> Iterator[str]:
    """Titles, languages and purposes of streams."""
    for kind in ("video", "audio", "subtitle"):
        found = [stream for stream in written.streams if stream.type == kind and not _is_cover(stream)]
        wanted = [stream for stream in source.streams if stream.type == kind and stream.index in copied]
        for want, have in zip_longest(wanted, found):
            if have is None:
                yield f"{label(want)}: it is not found in what was written"
            elif want is not None:
                yield from _lost_detail(want, have, where)


def _lost_detail(want: Stream, have: Stream, where: str) -> Iterator[str]:
    language, title = want.metadata.get("language", "und"), want.metadata.get("title")
    if language not in ("und", have.metadata.get("language")):
        yield f"language {language} of {label(want)}: {where} has {have.metadata.get('language', 'none')}"
    if title and title not in (have.metadata.get("title"), have.metadata.get("handler_name")):
        yield f"title of {label(want)}: {where} has no place for it"
    if lost := want.disposition & ~have.disposition:
        yield f"disposition {_flags(lost)} of {label(want)}: {where} has no place for it"


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _flags(value: av.stream.Disposition) -> str:
    return ", ".join(flag.name or "?" for flag in av.stream.Disposition if flag & value)
