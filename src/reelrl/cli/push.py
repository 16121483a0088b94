"""Share what a training learned on the Hugging Face Hub: its weights (safetensors) and a model card, nothing else.

reel push runs/0007 user/name                     a new place, or a new version in an old one
reel push runs/0007 user/name --private
reel push runs/0007 user/name -o card --dry-run   look at both files first
reel evaluate superblock --controllers hub:user/name

For runs of `reel train` superblock, minigop, abr, target and autoencoder. Log in once with `hf auth login`, or set
HF_TOKEN. The card and the weights' facts name the clips, traces or games that were learned from, as you gave them.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="a run folder, as `reel runs` lists them")
    add("name", metavar="USER/NAME", help="where to on the Hub")
    add("--private", action="store_true", help="make a new place that only you see")
    add(
        "--license",
        default="",
        metavar="ID",
        help="of the weights, in the words of the Hub: mit, cc-by-4.0 (default: none)",
    )
    add("-o", "--output", type=Path, metavar="FOLDER", help="also leave the two files there")
    add("--dry-run", action="store_true", help="send nothing; with -o")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    from reelrl.errors import ConfigError
    from reelrl.runs import hub, model_card
    from reelrl.runs.folder import RunFolder

    hub.check_name(args.name)
    if not re.fullmatch(r"[\w.-]*", args.license):
        raise ConfigError(f"--license {args.license!r}; give one word, such as mit or cc-by-4.0")
    if args.dry_run and args.output is None:
        raise ConfigError("--dry-run sends nothing and without -o FOLDER leaves nothing; add -o")
    folder = RunFolder(args.run)
    with tempfile.TemporaryDirectory(prefix="reelrl-push-") as scratch:
        where = args.output or Path(scratch)
        model_card.write(where, folder, args.name, args.license)
        sizes = {name: (where / name).stat().st_size for name in (hub.WEIGHTS, hub.CARD)}
        address = None if args.dry_run else hub.push(where, args.name, private=args.private)
    if args.json:
        output.as_json({"run": str(folder.folder), "name": args.name, "address": address, "bytes": sizes})
        return
    for name, size in sizes.items():
        output.line("file", where / name if args.output else name, f"{size:,} bytes".replace(",", " "))
    if address is None:
        output.line("sent", "nothing", "--dry-run")
        return
    output.line("pushed", address)
    output.next_command(model_card.use_of(folder, args.name))
