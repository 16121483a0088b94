"""Make one page about runs of any kind: their figures, curves, films and settings, side by side.

reel report runs/0007                       into report/
reel report runs/0007 runs/0008 -o both     two runs compared
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, as `reel runs` lists them")
    parser.add_argument("-o", "--output", default="report", metavar="FOLDER", help="where to (default report)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.report.run_page import write_run_page

    page = write_run_page(args.runs, args.output)
    if args.json:
        output.as_json({"page": page, "runs": args.runs})
    output.line("page", page, "1 run" if len(args.runs) == 1 else f"{len(args.runs)} runs")
