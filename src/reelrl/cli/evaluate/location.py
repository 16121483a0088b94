"""Compare nets that know where everybody is with baselines, on matches they have not seen.

reel evaluate location runs/0007
reel evaluate location runs/0007 runs/0008 runs/0009 runs/0010 -o runs/where      several seeds, with and without term
reel evaluate location runs/0007 --split val                                     while settings are still being chosen

Runs that differ in nothing but the seed are one contestant. Nets answer from one player's view, and from all.
Writes scores.csv, places.csv, summary.json, report.md, maps.png and index.html.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from reelrl.cli import options, output
from reelrl.errors import ConfigError
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    import argparse

    from reelrl.act.location.evaluate import Evaluation

SPLITS = ("test", "val")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="runs of `reel train location` on the same data")
    add("--data", metavar="DATA", help="where the matches are now (default: where the first run found them)")
    add("--split", default="test", help="test (default) or val")
    add("--embeddings", metavar="FOLDER", help="take embeddings from there (default: the cache)")
    add("--precomputed", action="store_true", help="look at no video: all embeddings must be there")
    add("-o", "--out", default="runs/evaluate-location", metavar="FOLDER", help="where results go")
    add("--device", metavar="NAME", help="where frozen encoders look at videos: cpu or cuda (default: a GPU, if any)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads (default 1)")
    options.add_workers(parser, 1, "contestants that answer at the same time", cluster=False)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.act.location import page as location_page
    from reelrl.act.location import tables as location_report
    from reelrl.act.location.evaluate import evaluate
    from reelrl.act.location.map_pictures import prediction_sheet
    from reelrl.act.location.retrieval_scores import retrieval_scores
    from reelrl.agents.devices import use_device
    from reelrl.content.pictures import save_png
    from reelrl.runs.folder import RunFolder
    from reelrl.storage.files import writable_folder

    if args.split not in SPLITS:
        raise ConfigError(f"--split {args.split}: give {' or '.join(SPLITS)}")
    device = use_device(args.device, args.threads)
    # Before hours of answers, not after them: a run that is not there, a folder that cannot be written to.
    folders = [RunFolder(path) for path in args.runs]
    folder = writable_folder(args.out)
    evaluation = evaluate(
        folders,
        data=args.data,
        split=args.split,
        embeddings=args.embeddings,
        make=not args.precomputed,
        device=device,
        jobs=args.jobs,
    )
    first = next(iter(evaluation.nets.values()))[0]  # one picture of maps, so one net's
    retrieval = retrieval_scores(evaluation.nets, args.split, first.settings.apart_s)
    facts = _facts(evaluation)
    sheet = prediction_sheet(first, args.split)
    save_png(own_path(folder / "maps.png"), sheet)
    location_report.write_records(folder, evaluation, retrieval, facts)
    location_page.write_page(own_path(folder / "index.html"), evaluation, retrieval, sheet, facts)
    if args.json:
        output.as_json(location_report.summary(evaluation, retrieval, facts))
        return 0
    print(location_report.tables(evaluation, retrieval))
    output.next_command(f"open {folder / 'index.html'}")
    return 0


def _facts(evaluation: Evaluation) -> dict[str, Any]:
    scenes = evaluation.scenes
    moments = scenes.moments[evaluation.split]
    nets = {name: [f"{net.folder} seed {net.seed}" for net in group] for name, group in evaluation.nets.items()}
    first = next(iter(evaluation.nets.values()))[0].settings
    return {
        "data": str(scenes.data.folder),
        "map": scenes.map,
        "split": evaluation.split,
        "matches": len(moments.matches),
        "moments": len(moments),
        "views": int(moments.present.sum()),
        "clip": f"{first.samples.frames} frames, {first.samples.stride} rows apart",
        "rows_per_second": scenes.data.rows_per_second,
        "ahead_s": first.samples.ahead_s,
        "encoder": first.encoder.model_type,
        "nets": nets,
        "command": shlex.join(["reel", *sys.argv[1:]]),
    }
