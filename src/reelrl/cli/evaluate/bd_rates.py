"""What `reel evaluate superblock` and `reel evaluate minigop` share: options, facts, how results are handed over."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def add_arguments(
    parser: argparse.ArgumentParser,
    problem: str,
    *,
    preset: int,
    frames: int,
    qps: str,
    qps_help: str,
    clips_help: str,
    split_help: str,
) -> None:
    """The options that both have, with the defaults of each."""
    add = parser.add_argument
    add("--controllers", nargs="+", default=[], metavar="WHAT", help="besides the default ones")
    add("--only", nargs="+", metavar="WHAT", help="these, and nobody else but their anchors")
    add("--preset", type=int, default=preset, help=f"the encoder's speed preset (default {preset})")
    add("--clips", nargs="+", metavar="CLIP", help=clips_help)
    add("--split", default="test", help=split_help)
    add("--qps", default=qps, help=qps_help)
    add("--frames", type=int, default=frames, metavar="N", help=f"of each clip (default {frames or 'all'})")
    add("--method", default="pchip", help="between points: pchip (default) or akima")
    options.add_workers(parser)
    add("--out", default=f"runs/evaluate-{problem}", metavar="FOLDER", help="where results go")
    options.add_seed(parser)
    options.add_json(parser)


def contestants(args: argparse.Namespace, default: Iterable[str]) -> list[str]:
    """Who is compared, in the words of the command line."""
    return args.only or [*default, *args.controllers]


def facts(args: argparse.Namespace, metrics: Sequence[str], cpu_s: float) -> dict[str, Any]:
    """How figures came about, as far as both commands say it alike."""
    return {
        "qps": args.qps,
        "metrics": list(metrics),
        "method": args.method,
        "seed": args.seed,
        "cpu_s": round(cpu_s, 1),
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }


def hand_over(
    args: argparse.Namespace,
    folder: Path,
    rows: Mapping[str, Sequence[Any]],
    summary: Mapping[str, Any],
    facts: Mapping[str, Any],
    text: str,
    notes: Sequence[str] = (),
) -> int:
    """Write the records beside the page, and print: JSON for programs, else tables and notes. `rows` have `row()`."""
    from reelrl.report import records

    records.write(folder, {table: [each.row() for each in results] for table, results in rows.items()}, summary, facts)
    if args.json:
        output.as_json({"facts": facts, **summary})
        return 0
    print(text)
    for note in notes:
        output.line("note", note)
    output.next_command(f"open {folder / 'index.html'}")
    return 0
