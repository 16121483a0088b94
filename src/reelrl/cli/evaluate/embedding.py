"""Measure what embeddings know of a game's state, by linear classifiers, beside PCA, pixels and a random CNN.

    reel compare autoencoder --contestants default --games Pong,Breakout --frames 10000 --keep weights
    reel evaluate embedding weights/*/*.safetensors -o embedding.json

Labels are bytes of the console's memory in five categories: where the player, small and other objects are, scores and
clocks, and the rest. F1 is of episodes that no model saw. Weights of several numbers of frames give a curve.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reelrl.cli import options, output

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="WEIGHTS", help="GAME-NAME-SEED.safetensors, or runs")
    parser.add_argument("--source", metavar="NAME", help="what a file with another name was trained on")
    parser.add_argument("--frames", type=int, default=6000, metavar="N", help="frames to fit on (default 6000)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    options.add_workers(parser, 1, "games at the same time", cluster=False)
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("embedding.json"), metavar="FILE", help="rows (JSON), and tables (.md)"
    )
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.agents.devices import pick_device
    from reelrl.parallel import executor
    from reelrl.runs.progress import Progress
    from reelrl.see import state_report
    from reelrl.storage.files import writable_folder, write_atomic

    writable_folder(args.out.parent)
    device = str(pick_device(args.device))
    tasks = state_report.tasks_of(args.models, args.frames, device, args.source)
    facts = {"command": shlex.join(["reel", *sys.argv[1:]]), "device": device, "frames": args.frames}
    rows: list[dict[str, object]] = []
    with executor(args.jobs) as work, Progress("probe", len(tasks), unit="games") as progress:
        for _, found in work.as_completed(state_report.examine_state, tasks, name=lambda task: task.game):
            rows += found
            rows.sort(key=lambda row: str(row["game"]))
            write_atomic(args.out, json.dumps({"facts": facts, "rows": rows}) + "\n")
            progress.update()
    text = state_report.markdown(rows)
    write_atomic(args.out.with_suffix(".md"), text)
    if args.json:
        output.as_json({"facts": facts, "rows": rows})
    else:
        print(text)
    return 0
