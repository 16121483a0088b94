"""List the clips there are to work with, or write one to a file.

reel clips                                         all of them, with their side of the train/test split
reel clips --verify                                read each one and check its hash
reel clips make generated:street?seed=3 -o s.y4m   write one as .y4m or raw .yuv
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.runs.progress import track

if TYPE_CHECKING:
    import argparse

    from reelrl.content.catalogue import Entry

COLUMNS = ("name", "size", "frames", "fps", "split", "source", "licence")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument("--split", choices=("train", "test"), help="list one side only")
    parser.add_argument("--verify", action="store_true", help="read every clip and check it against its hash")
    actions = parser.add_subparsers(dest="action", metavar="[make]")
    make = actions.add_parser("make", help="write one clip to a file", allow_abbrev=False)
    make.add_argument("clip", help="a name from the list, a recipe such as generated:street?seed=3, or a file")
    make.add_argument("-o", "--output", required=True, metavar="FILE", help="where to: .y4m or .yuv")


def run(args: argparse.Namespace) -> int:
    return _make(args) if args.action == "make" else _list(args)


def _list(args: argparse.Namespace) -> int:
    from reelrl.content.catalogue import catalogue, left_out

    entries = [entry for entry in catalogue() if args.split in (None, entry.split)]
    problems: dict[str, str] = {}
    if args.verify:
        problems = {entry.clip.name: entry.verify() for entry in track(entries, "verify")}
    if args.json:
        output.as_json([_record(entry, problems) for entry in entries])
    else:
        _print_table(entries, problems)
        for reason in left_out():
            output.line("skip", reason)
        output.next_command("reel clips make generated:street -o street.y4m")
    return 1 if any(problems.values()) else 0


def _make(args: argparse.Namespace) -> int:
    from reelrl.content.sources import open_clip
    from reelrl.content.write.video import write_video

    clip = open_clip(args.clip)
    write_video(args.output, clip)
    output.line("wrote", args.output, f"{clip.frame_count} frames", f"{clip.width}x{clip.height}", f"{clip.fps} fps")
    return 0


def _print_table(entries: list[Entry], problems: dict[str, str]) -> None:
    rows = [COLUMNS, *(_row(entry) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for number, row in enumerate(rows):
        state = _state(problems, entries[number - 1].clip.name) if number and problems else ""
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), state]).rstrip())


def _state(problems: dict[str, str], name: str) -> str:
    return f"WRONG: {problems[name]}" if problems[name] else "ok"


def _row(entry: Entry) -> tuple[str, ...]:
    clip = entry.clip
    size, rate = f"{clip.width}x{clip.height}", f"{float(clip.fps):.5g}"
    return clip.name, size, str(clip.frame_count), rate, entry.split, clip.source, clip.licence_class


def _record(entry: Entry, problems: dict[str, str]) -> dict[str, Any]:
    clip = entry.clip
    record: dict[str, Any] = {
        "name": clip.name,
        "width": clip.width,
        "height": clip.height,
        "frames": clip.frame_count,
        "fps": str(clip.fps),
        "split": entry.split,
        "source": clip.source,
        "licence": clip.licence_class,
    }
    if problems:
        record |= {"ok": not problems[clip.name], "problem": problems[clip.name], "hash": _hash(entry)}
    return record


def _hash(entry: Entry) -> str | None:
    # Cached by `verify`; a clip that could not be read has none.
    return vars(entry.clip).get("content_hash")
