"""List runs: what was trained, how it ended, how far it came, how well it did, how large it is.

reel runs                 those in runs/, and in folders below it
reel runs sweeps/abr      those of another folder
reel runs --json          for a program
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse

    from reelrl.runs.overview import RunOverview


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default="runs", help="the folder that holds runs (default runs)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.runs.overview import DAMAGED, overviews
    from reelrl.runs.stages import STAGES

    found = overviews(args.folder)
    if args.json:
        output.as_json([asdict(each) for each in found])
        return
    if not found:
        output.line("runs", args.folder, "none yet")
        output.next_command("reel train abr")
        return
    width = max(len(str(each.folder)) for each in found)
    print(f"{'run':<{width}}  {'kind':<12} {'state':<8} {'step':>12}  {'size':>9}  best")
    for each in found:
        print(_line(each, width))
    for each in found:
        if each.state == DAMAGED:
            output.line("note", each.folder, each.problem)
    judged = [each for each in found if each.state != DAMAGED and each.stage in STAGES and STAGES[each.stage].evaluate]
    newest = max(judged, key=lambda each: each.created, default=None)
    if newest:
        output.next_command(f"reel evaluate {newest.folder}")


def _line(each: RunOverview, width: int) -> str:
    step = "-" if each.step is None else str(each.step)
    best = "-" if each.best is None else f"{each.best:.4g} {each.figure}"
    size = shown_size(each.size_bytes)
    return f"{each.folder!s:<{width}}  {each.stage:<12} {each.state:<8} {step:>12}  {size:>9}  {best}"


def shown_size(size_bytes: int) -> str:
    """In decimal units, as disks are sold."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
