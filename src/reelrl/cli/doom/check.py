"""List everything that is wrong with the files of a Doom training, without training.

reel check doom --task task.yaml --actor actor.yaml --critic critic.yaml --experiment experiment.yaml

Files that are not given are the ones that ship. Models are built for the match's shapes; no engine starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.cli.train.doom import add_files

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--algorithm", default="mappo", metavar="NAME", help="of BenchMARL (default mappo)")
    add_files(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.act.marl.checks import check_files
    from reelrl.cli.main import DONE, FAILED

    files = {part: getattr(args, part) for part in ("task", "actor", "critic", "experiment")}
    files["algorithm"] = args.algorithm_file
    findings = check_files(files, args.algorithm)
    status = FAILED if findings.problems else DONE
    if args.json:
        output.as_json({"problems": findings.problems, "notes": findings.notes})
        return status
    for part, text in findings.problems:
        output.line("wrong", files[part] or part, text)
    for part, text in findings.notes:
        output.line("note", files[part] or part, text)
    given = [f"--{part} {path}" for part, path in files.items() if path and part != "algorithm"]
    given += [f"--algorithm-file {args.algorithm_file}"] if args.algorithm_file else []
    if not findings.problems:
        output.line("fine", "nothing is wrong")
        output.next_command(" ".join(["reel train doom", *given]))
    return status
