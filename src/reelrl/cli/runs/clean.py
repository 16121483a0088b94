"""Remove what trainings left that nobody needs.

reel runs clean           say what would go from runs/, and how much room that makes
reel runs clean --yes     remove it

What goes: runs that ended before they saved anything, and all checkpoints but the newest of runs that are done.
Policies, films and logs stay, and so do runs that somebody is writing to. One that was stopped keeps all checkpoints.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.runs.overview import shown_size

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default="runs", help="the folder that holds runs (default runs)")
    parser.add_argument("--yes", action="store_true", help="remove it; without, it is only listed")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.runs.leftovers import leftovers

    found = leftovers(args.folder)
    for each in found:
        if args.yes:
            # Hidden first: what a kill leaves half removed must not look like a run or a checkpoint.
            shutil.rmtree(each.folder.rename(each.folder.with_name(f".removing-{each.folder.name}")))
        output.line("gone" if args.yes else "would", each.folder, shown_size(each.size_bytes), each.why)
    if args.json:
        output.as_json([{"folder": each.folder, "why": each.why, "size_bytes": each.size_bytes} for each in found])
    output.line("sum", shown_size(sum(each.size_bytes for each in found)), f"{len(found)} folders")
    if found and not args.yes:
        output.next_command(f"reel runs clean {args.folder} --yes")
