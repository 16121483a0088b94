"""Decisions for stock tools: a qp-file for SVT-AV1's own program, zones for Av1an."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import explain_os_error, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.source.in_process import InProcessSource


def qp_file_text(source: InProcessSource) -> str:
    """One QP per line, in input order: `SvtAv1EncApp --rc 0 --aq-mode 2 --use-q-file 1 --qpfile FILE ...`.

    In low delay the QPs are those that the encoder gave its pictures.
    """
    if len(source.packets) != source.clip.frame_count:
        raise ConfigError(
            f"{len(source.packets)} of {source.clip.frame_count} frames are coded; export a pass that is complete"
        )
    return "".join(f"{packet.qp}\n" for packet in source.packets)


def read_qp_file(path: Path) -> list[int]:
    """The QPs of a qp-file."""
    try:
        lines = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError):
            raise ContentError(explain_os_error(error, path, "read")) from error
        raise ContentError(f"{path} is no text; a qp-file has one QP per line") from error
    for number, line in enumerate(lines, 1):
        if not (line.isdecimal() and 1 <= int(line) <= 63):
            raise ContentError(f"{path} line {number} is {line!r}; a qp-file has one QP from 1 to 63 per line")
    return [int(line) for line in lines]


def zones_text(source: InProcessSource) -> str:
    """A zone per mini-GOP for `av1an --zones FILE`: first frame, end, encoder, options.

    Av1an cuts the video at zones and codes each as a clip of its own, so only the differences between mini-GOPs
    arrive: its crf is the probe's QP plus the delta, rounded. Neighbours with one crf share a zone.
    """
    zones: list[list[int]] = []
    for span, delta in zip(source.spans, source.deltas, strict=False):
        crf = min(max(round(source.start_qp + delta), 1), 63)
        if zones and zones[-1][2] == crf:
            zones[-1][1] = span.end
        else:
            zones.append([span.first, span.end, crf])
    return "".join(
        f"{first} {end} svt-av1 --crf {crf} --preset {source.settings.preset}\n" for first, end, crf in zones
    )


def write_qp_file(source: InProcessSource, path: Path) -> None:
    write_atomic(path, qp_file_text(source).encode())


def write_zones(source: InProcessSource, path: Path) -> None:
    write_atomic(path, zones_text(source).encode())
