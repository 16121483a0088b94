"""Write the YAML files of a Doom training to a folder, to edit.

reel init doom my-team
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.files import writable_folder, write_atomic
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where to write them; made if it is not there")
    parser.add_argument("--force", action="store_true", help="overwrite files that are there")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.act.marl.yaml_files import SHIPPED

    folder = writable_folder(args.folder, error=ConfigError)
    targets = {part: Path(folder) / f"{part}.yaml" for part in SHIPPED}
    there = [str(path) for path in targets.values() if path.exists()]
    if there and not args.force:
        raise ConfigError(f"{', '.join(there)}: already there; choose another folder, or overwrite them with --force")
    for part, path in targets.items():
        write_atomic(own_path(path), SHIPPED[part].read_text(encoding="utf-8"))
        output.line("wrote", path)
    if args.json:
        output.as_json({"files": targets})
    named = {"algorithm": "algorithm-file"}
    output.next_command(
        "reel check doom " + " ".join(f"--{named.get(part, part)} {path}" for part, path in targets.items())
    )
