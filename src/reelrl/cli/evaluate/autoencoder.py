"""Measure trained autoencoders: quality against true bytes beside image codecs, and what the embedding knows.

    reel evaluate autoencoder runs/0007 -o out/autoencoder
    reel evaluate autoencoder breakout.safetensors --source ale:Breakout

All frames are of episodes that the model never saw. Embeddings are quantised, entropy-coded, written and read back.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="RUN", help="runs of reel train autoencoder, or weights")
    parser.add_argument("--source", metavar="NAME", help="what a .safetensors file was trained on")
    parser.add_argument("--frames", type=int, default=100, metavar="N", help="held-out frames for rates (default 100)")
    parser.add_argument(
        "--probe-frames",
        type=int,
        default=10_000,
        metavar="N",
        help="frames that the probe is fitted on, 0 for none (default 10000)",
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("autoencoder"), metavar="FOLDER", help="page, JSON and CSV go here"
    )
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.see import evaluate as autoencoder
    from reelrl.see import page as autoencoder_page
    from reelrl.see.measures.trained import load_trained
    from reelrl.storage.files import writable_folder, write_atomic

    folder = writable_folder(args.out)
    models = [load_trained(path, source=args.source or _by_name(path)) for path in args.models]
    reports = autoencoder.examine(models, frames=args.frames, probe_frames=args.probe_frames)
    facts = {
        "held-out frames": args.frames,
        "probe frames": args.probe_frames,
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
    autoencoder.write_records(folder, reports, facts)
    autoencoder_page.write_page(own_path(folder / "index.html"), reports, facts)
    text = autoencoder_page.markdown(reports)
    write_atomic(own_path(folder / "results.md"), text)
    if args.json:
        output.as_json({"facts": facts, "reports": [report.as_record() for report in reports]})
    else:
        print(text)
        output.next_command(f"open {folder / 'index.html'}")
    return 0


def _by_name(path: str) -> str | None:
    """What `reel compare autoencoder --keep` calls its files tells the game: Breakout-default-0.safetensors."""
    from reelrl.content.atari import GAMES

    game = Path(path).name.partition("-")[0]
    return f"ale:{game}" if path.endswith(".safetensors") and game in GAMES else None
