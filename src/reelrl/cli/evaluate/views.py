"""Ask frozen encoders of views who is where, now and 2, 5 and 10 s ahead, by how many labels the asking takes.

reel evaluate views DATA --encoder runs/0007                               beside the same encoder, untrained
reel evaluate views DATA --encoder runs/0007 runs/0008 runs/0009 effnet-lite0      several seeds are one encoder
reel evaluate views DATA --encoder runs/0007 my-embeddings                 a folder of embeddings that others made
reel evaluate views DATA --encoder runs/0007 --split val                   while settings are still being chosen

Encoders are runs of `reel pretrain views`, `reel train autoencoder` or `reel train frame-reader`, types such as
effnet-lite0 or dinov2=FOLDER, and folders with an embeddings.json. Writes scores.csv, differences.csv, retrieval.csv,
summary.json, report.md and index.html.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.act.views.evaluate import ViewsEvaluation

SPLITS = ("test", "val")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="recorded matches (default: those that the first run learned from)")
    add("--encoder", nargs="+", required=True, metavar="WHICH", help="runs, types, or folders of embeddings")
    add("--labels", nargs="+", default=["1%", "5%", "20%", "100%"], metavar="SHARE", help="of the training moments")
    add("--map", metavar="NAME", help="whose places are asked about (default: the one that training matches are on)")
    add("--split", default="test", help="test (default) or val")
    add("--stride", type=int, default=4, metavar="ROWS", help="from one moment to the next (default 4)")
    add("-o", "--out", default="runs/evaluate-views", metavar="FOLDER", help="where results go")
    add("--device", metavar="NAME", help="where encoders look at pictures: cpu or cuda (default: a GPU, if any)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads (default 1)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.act.recording.xego import open_matches
    from reelrl.act.views import page as views_page
    from reelrl.act.views import tables as views_tables
    from reelrl.act.views.asked import AskedViews
    from reelrl.act.views.encoders import open_encoders
    from reelrl.act.views.evaluate import evaluate
    from reelrl.agents.devices import use_device
    from reelrl.storage.files import writable_folder

    if args.split not in SPLITS:
        raise ConfigError(f"--split {args.split}: give {' or '.join(SPLITS)}")
    if args.stride < 1:
        raise ConfigError(f"--stride {args.stride}: give 1 or more")
    shares = sorted({_share(text) for text in args.labels})
    device = use_device(args.device, args.threads)
    args.data = args.data or _data_of(args.encoder)
    data = open_matches(args.data)
    encoders = open_encoders(args.encoder, data, args.stride, device)
    folder = writable_folder(args.out)
    asked = AskedViews.of(data, split=args.split, map_name=args.map, stride=args.stride)
    evaluation = evaluate(asked, encoders, shares)
    facts = _facts(args, evaluation)
    views_tables.write_records(folder, evaluation, facts)
    views_page.write_page(own_path(folder / "index.html"), evaluation, facts)
    if args.json:
        found = {"scores": views_tables.score_records(evaluation)}
        output.as_json({"facts": facts, **found, "differences": views_tables.difference_records(evaluation)})
        return 0
    if asked.left_out:
        output.line(
            "labels", f"{len(asked.left_out)} matches have none", "left out", f"the first is {asked.left_out[0]}"
        )
    print(views_tables.tables(evaluation))
    output.next_command(f"open {folder / 'index.html'}")
    return 0


def _data_of(words: list[str]) -> str:
    """The matches that the first of the runs learned from."""
    from reelrl.act.views.pretrain import ViewsTraining
    from reelrl.runs.folder import META, RunFolder

    for word in words:
        if (Path(word) / META).exists() or word.isdecimal() or "/" in word:
            folder = RunFolder(word)
            if folder.stage == "views":
                return folder.settings(ViewsTraining).data
    raise ConfigError("no matches to ask about, and no run of `reel pretrain views` that knows some; give their folder")


def _share(text: str) -> float:
    """From "5%" or "0.05"."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ConfigError(f"--labels {text}: give shares such as 5% or 0.05, above 0 and 100% at most")
    return share


def _facts(args: argparse.Namespace, evaluation: ViewsEvaluation) -> dict[str, Any]:
    asked = evaluation.asked
    return {
        "data": args.data,
        "map": asked.map,
        "split": asked.split,
        "matches": {name: len(each.matches) for name, each in asked.moments.items()},
        "moments": {name: len(each) for name, each in asked.moments.items()},
        "without labels": asked.left_out,
        "widths": evaluation.widths,
        "encoders": args.encoder,
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
